"""`python -m mta` is the `mta` command."""

from mta.cli.main import main

raise SystemExit(main())
