"""Memory of the process for a small and a large window, and what a leaf takes in the store."""

from __future__ import annotations

import tempfile
from typing import Any

from mta.lab.bench.engine.footprint import footprint
from mta.lab.bench.report import Section
from mta.lab.harness import Setting

#: Megabytes between a small and a large window; bytes in the store a byte of elements in it.
GROWTH, OVERHEAD = 8.0, 1.05


def measure(setting: Setting) -> Section:
    small, large = (1 << 12, 1 << 15) if setting.quick else (1 << 18, 1 << 24)
    section = Section(
        "memory", f"resident in a process of its own, windows of {small:,} and {large:,} elements of 16 bytes"
    )
    for name in ("rocksdb", "redis"):
        found: dict[int, Any] = {}
        for elements in (small, large):
            setting.say(f"memory: {elements:,} elements over {name}")
            with tempfile.TemporaryDirectory(prefix="mta-bench-") as directory:
                url = setting.redis_url if name == "redis" else f"rocksdb://{directory}"
                found[elements] = footprint(url, elements, setting.page_size)
        for elements, figures in found.items():
            section.add(
                name,
                f"{elements:,} elements",
                figures["resident_bytes"] / 1e6,
                "MB",
                note=f"peak {figures['peak_bytes'] / 1e6:.1f} MB, elements {elements * 16 / 1e6:.1f} MB",
            )
        growth = (found[large]["resident_bytes"] - found[small]["resident_bytes"]) / 1e6
        section.add(name, "difference", growth, "MB", target=None if setting.quick else GROWTH)
        stored = found[large]["stored_bytes"] / found[large]["stored_leaf_bytes"]
        pages = " + ".join(f"{count:,}" for count in found[large]["pages"].values())
        section.add(
            name,
            "stored / elements, in bytes",
            stored,
            "",
            target=None if setting.quick else OVERHEAD,
            note=f"{pages} pages in tiers 0, 1 …",
        )
        section.raw[name] = list(found.values())
    return section
