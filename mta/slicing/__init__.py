"""Many windows over one stream that is out of order, after Scotty (Traub et al., ICDE 2018).

```python
slicer = Slicer(monoids.Sum(), {"minute": Tumbling(60), "visit": Session(gap=30)}, lateness=120)
slicer.insert(21.5, time=1700000000)
for result in slicer.watermark(1700000120):
    result.query, result.start, result.end, result.value, result.is_update
```

| the paper's | module |
| --- | --- |
| stream slicer, slice separators | `stream_slicer` |
| slice manager, figure 4 | `slice_manager`; batches of tuples in `batches` |
| aggregate store | `aggregate_store`: lazy, eager and paged |
| window manager | `window_manager`; how far each query has come is in `progress` |
"""

from mta.slicing.lateness import Late
from mta.slicing.slicer import Slicer
from mta.slicing.window_manager import Result
from mta.slicing.windows import (
    ContentWindow,
    Delta,
    EdgeWindow,
    FixedBand,
    Punctuation,
    Session,
    Sliding,
    Tumbling,
    Window,
)

__all__ = [
    "ContentWindow",
    "Delta",
    "EdgeWindow",
    "FixedBand",
    "Late",
    "Punctuation",
    "Result",
    "Session",
    "Slicer",
    "Sliding",
    "Tumbling",
    "Window",
]
