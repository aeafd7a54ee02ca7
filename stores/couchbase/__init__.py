"""A store in a bucket of Couchbase Server. It needs the key-value service only: no query, no indexes."""

from stores.couchbase.store import CouchbaseStore

__all__ = ["CouchbaseStore"]
