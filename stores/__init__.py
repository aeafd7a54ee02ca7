"""Key-value stores for pages and roots: bytes in, bytes out, opened from a URL."""

from stores.base import Store, Token, new_token
from stores.errors import (
    Conflict,
    StoreChanged,
    StoreClosed,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownStore,
)
from stores.names import (
    PageKey,
    check_key,
    check_name,
    escape_name,
    page_key,
    page_prefix,
    pages_of,
    parse_page_key,
    unescape_name,
)
from stores.schemes import open_store, store_class
from stores.wrapper import CountingStore, LatencyStore, WrapperStore

__all__ = [
    "Conflict",
    "CountingStore",
    "LatencyStore",
    "PageKey",
    "Store",
    "StoreChanged",
    "StoreClosed",
    "StoreConfigError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Token",
    "UnknownStore",
    "WrapperStore",
    "check_key",
    "check_name",
    "escape_name",
    "new_token",
    "open_store",
    "page_key",
    "page_prefix",
    "pages_of",
    "parse_page_key",
    "store_class",
    "unescape_name",
]
