"""The examples of the repository, run as a newcomer would run them."""
