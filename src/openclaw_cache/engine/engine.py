"""The engine put together: one model, its KV cache, and the loop that runs them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from openclaw_cache.engine import model as models
from openclaw_cache.engine.arena import Arena
from openclaw_cache.engine.chat import Message
from openclaw_cache.engine.loop import EngineLoop
from openclaw_cache.engine.plan import Segment
from openclaw_cache.engine.runner import Runner, kv_layout
from openclaw_cache.engine.timed_cache import TimedCache
from openclaw_cache.errors import ConfigError
from openclaw_cache.kv.block import BlockPool, Tier
from openclaw_cache.kv.codec import ORDER, Codec
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.kv.hashing import ModelIdentity
from openclaw_cache.kv.lower import LowerTiers
from openclaw_cache.kv.movement import Movement
from openclaw_cache.kv.radix import RadixTree
from openclaw_cache.kv.tiers import HostStore, TierError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from openclaw_cache.engine.chat import Work
    from openclaw_cache.engine.kv_settings import KvSettings
    from openclaw_cache.engine.ticket import WorkTicket
    from openclaw_cache.kv.codec import KvLayout
    from openclaw_cache.kv.tiers import TierStore
    from openclaw_cache.types import Json

T = TypeVar("T")

_CALIBRATION_TOKENS = 64

TierState = Literal["ok", "off", "dead"]


class Engine:
    """A model that answers, over its KV cache. Made on any thread; `submit` from the event loop's.

    Args:
        model: The loaded model.
        settings: Of the KV cache.
        data_dir: Where the disk tier lives.
        max_waiting: Requests that may wait besides those that run.
        say: Told of what an operator should know, never of content.
        on_fault: Told that the engine's books are wrong and a new process is needed.

    Raises:
        ConfigError: The model cannot run over the cache, or a setting does not fit it.
    """

    def __init__(
        self,
        model: models.LanguageModel,
        settings: KvSettings,
        data_dir: Path,
        *,
        max_waiting: int,
        say: Callable[[str], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self.model = model
        self.settings = settings
        self.fingerprint = model.fingerprint
        layout = kv_layout(model.network.config, settings.block_tokens)
        self.codec = Codec(settings.compression, layout)
        self.device_block_bytes = self._block_bytes(layout)
        num_blocks = settings.num_device_blocks(self.device_block_bytes, model.window)
        self.window = min(model.window, num_blocks * settings.block_tokens)
        if self.window < model.window:
            say(
                f"kv_cache.device has room for {self.window} tokens: prompts and replies together can have no more"
            )
        try:
            arena = Arena(layout, num_blocks, model.dtype, model.device, settings.preallocation)
        except MemoryError as exc:
            raise ConfigError(f"kv_cache.device: {exc}") from None
        runner = Runner(model.network, arena, self.codec)
        prefill_s_per_token = _calibrate(runner, arena)
        self.tier_reasons: dict[Tier, str] = {}
        self.policy = POLICIES[settings.eviction]()
        self._loop: EngineLoop | None = None
        cache = self._cache(arena, data_dir, say)
        cache.prefill_s_per_token = prefill_s_per_token
        self._loop = EngineLoop(
            model,
            runner,
            cache,
            max_running=settings.max_concurrent,
            max_waiting=max_waiting,
            clock=time.monotonic,
            on_fault=on_fault,
        )

    @property
    def loop(self) -> EngineLoop:
        """The running loop."""
        assert self._loop is not None  # noqa: S101 - made by the constructor
        return self._loop

    def encode(self, messages: Sequence[Message], tools: Json = None) -> list[int]:
        """See `ChatEngine.encode`."""
        return self.model.encode(messages, tools)

    def prefix_tokens(self, messages: Sequence[Message], tools: Json = None) -> list[int]:
        """Tokens with which every chat that goes on from these messages begins. Thread-safe.

        Messages that end with a question are taken as they stand, with the beginning of the answer.
        """
        if messages[-1].role in ("user", "tool"):
            return self.encode(messages, tools)
        first, second = (self.encode([*messages, Message("user", text)], tools) for text in ("a", "7"))
        common = zip(first, second, strict=False)
        return first[: next((i for i, (a, b) in enumerate(common) if a != b), len(first))]

    def submit(self, work: Work) -> WorkTicket:
        """See `ChatEngine.submit`."""
        return self.loop.submit(work)

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the engine's thread, between two steps."""
        return self.loop.call(function)

    def close(self) -> None:
        """End open tickets, and bring what is cached to the disk as far as a few seconds allow. Blocks."""
        self.loop.close()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _block_bytes(self, layout: KvLayout) -> int:
        per_token = layout.num_layers * 2 * layout.num_kv_heads * layout.head_dim
        return per_token * layout.block_tokens * self.model.dtype.itemsize

    def _cache(self, arena: Arena, data_dir: Path, say: Callable[[str], None]) -> TimedCache:
        """The cache over all tiers, with what the disk has kept hung into its tree."""
        settings = self.settings
        chunk_blocks = settings.chunk_size // settings.block_tokens
        stores, disk = self._stores(data_dir, say)
        movement = Movement(
            arena,
            self.codec,
            stores,
            chunk_blocks=chunk_blocks,
            deadline_s=settings.io_timeout_s,
            wake=self._wake,
            on_event=say,
        )
        tree = RadixTree(settings.block_tokens)
        pool = BlockPool(arena.num_blocks, chunk_blocks)
        sizes = {tier: store.num_slots for tier, store in stores.items()}
        identity = self._identity(self.codec.layout)
        lower = LowerTiers(tree, pool, movement, sizes, identity, self.policy, settings.write)
        if disk is not None:
            orphans = lower.restore(disk.recover())
            if len(orphans):
                disk.forget(orphans)
        return TimedCache(
            tree,
            pool,
            lower,
            movement,
            arena,
            self.codec,
            is_enabled=settings.enabled,
            reserve_blocks=int(arena.num_blocks * settings.reserve),
        )

    def _stores(
        self, data_dir: Path, say: Callable[[str], None]
    ) -> tuple[dict[Tier, TierStore], DiskStore | None]:
        """The tiers below the device; one that cannot be had is left out, and said so."""
        settings = self.settings
        stores: dict[Tier, TierStore] = {}
        disk: DiskStore | None = None
        if not settings.enabled:
            self.tier_reasons = dict.fromkeys((Tier.HOST, Tier.DISK), "prefix caching is off")
            return stores, None
        num_slots = settings.host_bytes // self.codec.block_bytes
        if num_slots:
            try:
                stores[Tier.HOST] = HostStore(
                    num_slots,
                    self.codec,
                    preallocation_ratio=settings.preallocation,
                    pin_memory=self.model.device.type == "cuda",
                )
            except (MemoryError, RuntimeError) as exc:  # torch's allocator raises the latter
                raise ConfigError(
                    f"kv_cache.host: {settings.host_bytes} bytes cannot be had: {exc}"
                ) from None
        if settings.disk_bytes >= self.codec.block_bytes:
            try:
                disk = DiskStore.open(
                    data_dir / "kv", self.codec, self._identity(self.codec.layout), settings.disk_bytes
                )
            except MemoryError as exc:
                raise ConfigError(f"kv_cache.disk: its books have no room in memory: {exc}") from None
            except (OSError, TierError) as exc:
                self.tier_reasons[Tier.DISK] = str(exc)
                say(f"the KV cache runs without its disk tier: {exc}")
            else:
                stores[Tier.DISK] = disk
        return stores, disk

    def _identity(self, layout: KvLayout) -> ModelIdentity:
        config = self.model.network.config
        rope = json.dumps(getattr(config, "rope_parameters", None), sort_keys=True, default=str)
        shape = f"{layout.num_layers}x{layout.num_kv_heads}x{layout.head_dim}"
        return ModelIdentity(self.fingerprint, self.settings.compression, f"{ORDER} {shape}", rope)


def _calibrate(runner: Runner, arena: Arena) -> float:
    """Seconds per prompt token, measured on a short prompt; the second of two passes counts."""
    num_tokens = min(_CALIBRATION_TOKENS, arena.num_blocks * arena.layout.block_tokens)
    tokens = np.zeros(num_tokens, np.int32)
    took_s = 0.0
    for _ in range(2):
        began_at = time.monotonic()
        runner.forward([Segment(tokens, 0, np.arange(arena.num_blocks, dtype=np.int32))])
        took_s = time.monotonic() - began_at
    return took_s / num_tokens
