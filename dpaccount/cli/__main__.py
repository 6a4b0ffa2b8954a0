"""``python -m dpaccount.cli``."""

from dpaccount.cli.main import main

if __name__ == "__main__":
    main()
