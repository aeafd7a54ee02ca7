"""Which compiled modules this process has imported: Ctrl-C is lost where it comes while one is imported."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from types import ModuleType


def compiled_modules() -> set[str]:
    # lazy modules are asked for no attribute, which would import them
    modules = [each for each in sys.modules.values() if type(each) is ModuleType]
    return {each.__name__ for each in modules if isinstance(each.__loader__, ExtensionFileLoader)}
