from __future__ import annotations

import sys
from pathlib import Path

from mta.slicing import aggregate_store, window_manager

# So that few slices are enough for blocks of them, and for a stream that drops them an eighth at a time.
aggregate_store.BLOCK, window_manager.FEW_SLICES, window_manager.MERGED_TUPLES = 2, 4, 5

# For `plain_windows` and `window_kinds`, which the tests of this directory share.
sys.path.append(str(Path(__file__).parent))
