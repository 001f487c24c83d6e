"""``python -m binade`` is ``binade``."""

from binade.programs import main

if __name__ == "__main__":
    raise SystemExit(main())
