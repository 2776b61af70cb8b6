"""Cases of the validation suite, by topic; each module has `steps(namespace)`."""
