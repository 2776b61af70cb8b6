"""`python -m bayplan` is `bayplan`."""

from bayplan.cli.main import main

if __name__ == "__main__":
    main()
