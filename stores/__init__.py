"""Key-value stores for pages and roots: bytes in, bytes out, opened from a URL."""

from stores.base import (
    Conflict,
    PageKey,
    Store,
    StoreChanged,
    StoreClosed,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Token,
    UnknownStore,
    open_store,
    page_key,
    page_prefix,
    pages_of,
    parse_page_key,
)

__all__ = [
    "Conflict",
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
    "open_store",
    "page_key",
    "page_prefix",
    "pages_of",
    "parse_page_key",
]
