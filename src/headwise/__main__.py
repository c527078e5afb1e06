"""``python -m headwise`` is the command line, also where the console script is not on the path."""

from headwise.cli import main

if __name__ == "__main__":
    main()
