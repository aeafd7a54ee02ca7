"""`python -m mta` is the `mta` command."""

from mta.cli import main

raise SystemExit(main())
