"""``python -m trajcloak`` is the command ``trajcloak``."""

from trajcloak.cli import main

if __name__ == "__main__":
    main()
