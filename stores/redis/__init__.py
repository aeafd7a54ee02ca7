"""A store in Redis or Valkey, or in a cluster of them; 6.2 or newer, or a server that speaks as they do."""

from stores.redis.store import RedisStore, ValkeyStore

__all__ = ["RedisStore", "ValkeyStore"]
