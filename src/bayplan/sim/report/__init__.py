"""How a scenario's result is told: text, JSON, JUnit XML, one HTML page."""
