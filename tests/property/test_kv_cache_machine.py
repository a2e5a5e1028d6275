"""The whole prefix cache under any order of calls, against values that follow from the tokens alone.

The KV of a token is a hash of all tokens up to it, so whatever block turns up anywhere, it can be told whether it
is the right one. What was computed on a prefix that is not exact is shifted, so that it cannot pass for exact.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.codec import Kind
from openclaw_cache.kv.hashing import chain, root_hash
from openclaw_cache.kv.lease import LeaseError
from openclaw_cache.kv.lower import Write
from openclaw_cache.kv.node import Flag, Node
from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.kv.tiers import CorruptBlockError
from support.kv_gates import B
from support.kv_site import INT8_ERROR, SHIFT, KvSite, Run, Tokens, array, exact

picks = st.integers(0, 10**6)
salts = st.sampled_from([b"one", b"one", b"one", b"two"])
tails = st.lists(st.integers(0, 1), max_size=10).map(tuple)
tiers = st.sampled_from([Tier.DEVICE, Tier.DEVICE, Tier.HOST, Tier.DISK])
volatiles = st.sampled_from([False, False, False, True])

Path_ = tuple[bytes, Tokens]


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runs: list[Run] = []
        self.computed: set[Path_] = set()
        self.storable: set[Path_] = set()
        self.can_tell_index = True

    @initialize(
        kind=st.sampled_from(["fp16", "fp16", "int8"]),
        write=st.sampled_from(["through", "back"]),
        policy=st.sampled_from(["lru", "s3fifo", "agent", "agent"]),
        host=st.sampled_from([0, 1, 3, 8]),
        disk=st.sampled_from([0, 1, 5, 12]),
    )
    def build(self, kind: Kind, write: Write, policy: str, host: int, disk: int) -> None:
        self.args: dict[str, Any] = {
            "kind": kind, "write": write, "policy": policy, "device": 14, "host": host, "disk": disk, "reserve": 2,
        }  # fmt: skip
        self.open()

    def open(self) -> None:
        self.site = KvSite(Path(self.folder.name), **self.args)

    def known(self) -> list[Path_]:
        nodes = [(node.root, tuple(node.path_tokens().tolist())) for node in self.site.tree.nodes()]
        return nodes + [(run.salt, run.tokens) for run in self.runs]

    # -- sequences. Few rules, as hypothesis leaves some out in each example: the rarer calls share one.

    def prompt(self, salt: bytes, pick: int, tail: Tokens) -> Tokens:
        """Mostly something known, sometimes cut off, with other tokens behind it."""
        known = [path[1] for path in self.known() if path[0] == salt]
        begin: Tokens = ()
        if known and pick % 4:
            begin = known[pick // 4 % len(known)]
        if pick // 97 % 3 == 0:
            begin = begin[: pick // 291 % (len(begin) + 1)]
        return (begin + tail)[:28] or (0,)

    def start(self, salt: bytes, pick: int, tail: Tokens, is_volatile: bool, keeps: bool) -> Run | None:
        tokens = self.prompt(salt, pick, tail)
        most = len(tokens) - pick % 2
        run = self.site.start(tokens, salt, is_volatile=is_volatile, keeps_reserve=keeps, most_cached=most)
        if run is None:
            return None
        self.runs.append(run)
        longest = max((len(t) for s, t in self.computed if s == salt and tokens[: len(t)] == t), default=0)
        assert run.hold.num_cached <= min(longest, most)
        assert run.hold.num_blocks == -(-len(tokens) // B)
        return run

    @rule(salt=salts, pick=picks, tail=tails, is_volatile=volatiles)
    @precondition(lambda self: len(self.runs) < 4)
    def request(self, salt: bytes, pick: int, tail: Tokens, is_volatile: bool) -> None:
        """From its beginning to its end, as far as nothing holds it up."""
        run = self.start(salt, pick, tail, is_volatile, False)
        if run is None:
            return
        self.wait()
        if self.compute(run, 30):
            self.commit(run)
            self.end(run)

    @rule(salt=salts, pick=picks, tail=tails, is_volatile=volatiles, keeps=st.booleans())
    @precondition(lambda self: len(self.runs) < 4)
    def acquire(self, salt: bytes, pick: int, tail: Tokens, is_volatile: bool, keeps: bool) -> None:
        self.start(salt, pick, tail, is_volatile, keeps)

    @rule(pick=picks, call=st.sampled_from(["compute", "generate", "settle", "fork", "release"]), more=tails)
    @precondition(lambda self: self.runs)
    def go_on(self, pick: int, call: str, more: Tokens) -> None:
        run = self.runs[pick % len(self.runs)]
        if call == "compute":
            self.compute(run, len(more) + 1)
        elif call == "generate":
            self.generate(run, more[:3])
        elif call == "settle":
            if self.site.settle(run) == "lost":
                self.end(run)
        elif call == "fork":
            self.fork(run)
        if call == "release":
            self.end(run)
        elif pick // 10 % 2:
            self.commit(run)

    def compute(self, run: Run, num: int) -> bool:
        if self.site.settle(run) != "there":
            return False
        first = run.num_computed
        self.site.compute(run, num)
        self.computed |= {(run.salt, run.tokens[:end]) for end in range(first + 1, run.num_computed + 1)}
        return True

    def commit(self, run: Run) -> None:
        if run not in self.runs or run.hold.is_loading:
            return
        self.site.commit(run)
        if not run.is_volatile:
            whole = run.num_computed // B * B
            self.storable |= {(run.salt, run.tokens[:end]) for end in range(B, whole + 1, B)}

    def generate(self, run: Run, new: Tokens) -> None:
        if len(run.tokens) < 30 and self.site.cache.extend(run.hold, len(run.tokens) + len(new)):
            run.tokens += new

    def fork(self, run: Run) -> None:
        if len(self.runs) > 4 or not run.num_computed or self.site.settle(run) != "there":
            return
        hold = self.site.cache.fork(run.hold, run.num_computed)
        if hold is not None:
            tokens = run.tokens[: run.num_computed]
            self.runs.append(Run(run.salt, tokens, hold, run.is_volatile, run.num_computed))

    def end(self, run: Run) -> None:
        self.site.release(run)
        self.runs.remove(run)

    # -- the engine's and the operator's other calls

    @rule(passed_s=st.sampled_from([0.0, 0.0, 0.0, 6.0, 1e9, -7.0]))
    def poll(self, passed_s: float) -> None:
        self.site.poll(passed_s)

    @rule()
    def wait(self) -> None:
        if all(gate.is_open.is_set() for gate in self.site.gates.values()):
            self.site.drain()
            self.check_below()

    @rule(tier=tiers, num=st.sampled_from([1, 2, 3, 14]))
    def evict(self, tier: Tier, num: int) -> None:
        if tier is Tier.DEVICE or tier in self.site.lower.pools:
            self.site.lower.evict(tier, num)

    @rule(call=st.sampled_from(["pin", "forget", "measure", "hint"]), pick=picks)
    def operate(self, call: str, pick: int) -> None:
        if call == "pin":
            self.pin(pick)
        elif call == "forget":
            self.forget(pick)
        elif call == "hint":
            self.hint(pick)
        else:
            self.site.cache.prefill_s_per_token = [0.0, 0.0, 1.0, 1e-12][pick % 4]

    def pin(self, pick: int) -> None:
        known = self.known()
        if not known:
            return
        salt, tokens = known[pick % len(known)]
        tokens = tokens[: len(tokens) - pick // 97 % (len(tokens) + 1)]
        whole = len(tokens) // B * B
        num_cached = self.site.cache.num_cached(salt, array(tokens))
        try:
            lease = self.site.cache.leases.pin(salt, array(tokens), self.site.clock() + 1 + pick % 9)
        except LeaseError:
            return
        assert num_cached == whole == lease.num_tokens == lease.node.end

    def forget(self, pick: int) -> None:
        nodes = [node for node in self.site.tree.nodes() if not node.num_pins]
        if not nodes:
            return
        node = nodes[pick % len(nodes)]
        salt, first = node.root, node.start
        within = tuple(node.path_tokens().tolist())[: first + 1]
        self.site.cache.forget(node)
        assert self.site.tree.match(salt, array(within)).num_tokens <= first
        # A block belongs to the node of its last token.
        self.storable = {path for path in self.storable if path[0] != salt or path[1][: first + 1] != within}
        if self.site.gates[Tier.DISK].is_broken:
            self.can_tell_index = False

    def hint(self, pick: int) -> None:
        for node in list(self.site.tree.nodes())[pick % 5 :: 5]:
            self.site.tree.rhythm.hint(node, Hint(pick // 5 % 4))

    # -- faults

    @rule(
        fault=st.sampled_from(["damage", "damage", "hold up", "let go", "break", "repair"]),
        tier=st.sampled_from([Tier.HOST, Tier.DISK]),
        pick=picks,
    )
    def suffer(self, fault: str, tier: Tier, pick: int) -> None:
        gate = self.site.gates[tier]
        if fault == "hold up":
            gate.is_open.clear()
        elif fault == "let go":
            gate.is_open.set()
        elif fault == "damage":
            self.damage(tier, pick)
        else:
            gate.is_broken = fault == "break"
            self.can_tell_index &= tier is not Tier.DISK

    def damage(self, tier: Tier, pick: int) -> None:
        slots = [
            slot for node in self.site.tree.nodes() for slot in node.slots[tier].tolist() if slot != NOWHERE
        ]
        if slots:
            store = self.site.host if tier is Tier.HOST else self.site.disk
            store.damage(slots[pick % len(slots)])

    @rule(crashes=st.booleans())
    def restart(self, crashes: bool) -> None:
        self.end_all()
        self.site.close(crashes=crashes)
        self.open()
        self.check_below()

    def end_all(self) -> None:
        for gate in self.site.gates.values():
            gate.is_broken = False
            gate.is_open.set()
        for run in self.runs:
            self.site.release(run)
        self.runs.clear()
        self.site.drain()

    # -- what must hold

    @invariant()
    def transfers_are_as_far_as_they_get(self) -> None:
        if hasattr(self, "site"):
            self.site.rest()

    @invariant()
    def books_agree(self) -> None:
        if hasattr(self, "site"):
            self.site.cache.check_integrity()

    @invariant()
    def every_sequence_reads_its_own_kv(self) -> None:
        for run in self.runs:
            if run.hold.is_loading:
                continue
            num = run.num_computed
            self.check_kv(
                self.site.content(run.hold.table, num), exact(run.salt, run.tokens[:num]),
                is_exact=not run.hold.is_lossy, may_be_variant=True,
            )  # fmt: skip

    @invariant()
    def nobody_else_holds_a_block_that_is_written(self) -> None:
        for run in self.runs:
            if run.hold.is_loading:
                continue
            first_free = -(-run.num_computed // B)
            mine = run.hold.table[first_free:].tolist()
            assert [self.site.device.num_refs(block) for block in mine] == [1] * len(mine)
            if run.num_computed % B:
                partial = int(run.hold.table[run.num_computed // B])
                assert all(partial not in other.hold.table for other in self.runs if other is not run)

    @invariant()
    def what_the_device_has_of_a_path_is_a_beginning_and_right(self) -> None:
        if not hasattr(self, "site"):
            return
        for node in self.site.tree.nodes():
            self.check_node(node)

    def check_node(self, node: Node) -> None:
        salt, tokens = node.root, tuple(node.path_tokens().tolist())
        whole = exact(salt, tokens)
        is_on_device = np.concatenate([above.slots[Tier.DEVICE] != NOWHERE for above in node.path()])
        assert not (np.diff(is_on_device.astype(np.int8)) > 0).any()
        for at, (block, flags) in enumerate(
            zip(node.slots[Tier.DEVICE].tolist(), node.flags.tolist(), strict=True)
        ):
            if block != NOWHERE:
                first = (node.first_block + at) * B
                self.check_kv(
                    self.site.content(array([block]), B), whole[:, :, first : first + B],
                    is_exact=not flags & (Flag.LOSSY | Flag.VARIANT), may_be_variant=True,
                )  # fmt: skip
        if node.tail != NOWHERE:
            num = node.end % B
            self.check_kv(
                self.site.content(array([node.tail]), num), whole[:, :, node.end - num :],
                is_exact=not node.tail_flags, may_be_variant=True,
            )  # fmt: skip

    def check_kv(
        self, found: torch.Tensor, whole: torch.Tensor, *, is_exact: bool, may_be_variant: bool
    ) -> None:
        if is_exact or not self.site.codec.is_lossy:
            assert torch.equal(found, whole)
            return
        error = (found - whole).abs().amax(dim=(0, 1, 3, 4))
        if may_be_variant:
            error = torch.minimum(error, (found - whole - SHIFT).abs().amax(dim=(0, 1, 3, 4)))
        assert (error <= INT8_ERROR).all()

    def check_below(self) -> None:
        """What the lower tiers have is what their blocks' names promise, and nothing that may not be there."""
        for node in self.site.tree.nodes():
            whole = exact(node.root, tuple(node.path_tokens().tolist()))
            for tier in self.site.lower.pools:
                for at in np.flatnonzero(node.slots[tier] != NOWHERE).tolist():
                    first = (node.first_block + at) * B
                    try:
                        found = self.site.below(tier, int(node.slots[tier, at]))
                    except CorruptBlockError:
                        continue
                    self.check_kv(
                        found, whole[:, :, first : first + B],
                        is_exact=False, may_be_variant=bool(node.flags[at] & Flag.VARIANT),
                    )  # fmt: skip
        if Tier.DISK in self.site.lower.pools and self.can_tell_index and not self.site.codec.is_lossy:
            identity = self.site.identity
            allowed = {
                chain(root_hash(salt, identity, B), array(tokens), B)[-1] for salt, tokens in self.storable
            }
            assert {record.name for _, record in self.site.disk.index()} <= allowed

    def teardown(self) -> None:
        if hasattr(self, "site"):
            self.end_all()
            self.site.poll(passed_s=100.0)  # the leases end
            self.site.drain()
            assert not list(self.site.cache.leases)
            self.site.check_all_free()
            for tier in (Tier.DEVICE, *self.site.lower.pools):
                self.site.until(partial(self.has_emptied, tier))
            self.site.cache.check_integrity()
            assert not self.site.tree.roots()
            self.site.close(crashes=True)
        self.folder.cleanup()

    def has_emptied(self, tier: Tier) -> bool:
        self.site.lower.evict(tier, 100)
        return self.site.num_in(tier) == 0


CacheMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_no_order_of_calls_and_faults_gives_a_wrong_block_or_loses_one = CacheMachine.TestCase
