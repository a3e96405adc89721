"""What one rank of ``fully_shard`` issues to its streams, and what each op waits for; torch 2.13."""

from __future__ import annotations

from ...program import Buffer, Op, collective_op
from ...specs import Cluster
from .groups import Costs, Group, Mesh, Use


class Rank:
    """What a rank has issued so far, and what comes next on its streams waits for.

    The all-gathers, reductions and events of torch/distributed/fsdp/_fully_shard: an op that waits for the
    start of a compute op waits for all that compute has come past by then.
    """

    def __init__(self, mesh: Mesh, groups: list[Group], costs: Costs, separate: bool) -> None:
        self.mesh, self.groups, self.costs = mesh, groups, costs
        self.reductions = "reductions" if separate else "comm"
        self.ops: list[Op] = []
        self.last: tuple[int, ...] = ()  # the last compute op
        self.waiting: tuple[int, ...] = ()  # what the next one waits for, on other streams
        self.taking: tuple[Buffer, ...] = ()  # what it takes beside its own
        self.gate: tuple[int, ...] = ()  # what the next all-gather waits for
        self.copied: tuple[int, ...] | None = None  # what the one after that waits for, in the forward pass
        self.gathers: list[tuple[int, ...] | None] = [None for _ in groups]  # the all-gather under way
        self.whole = [False for _ in groups]
        self.kept: list[tuple[int, ...]] = [() for _ in groups]  # the compute before shards are kept apart
        self.written: list[tuple[Buffer, ...]] = [() for _ in groups]  # gradients until they are reduced
        self.unreduced: list[tuple[Buffer, ...]] = [() for _ in groups]  # and those of earlier micro-steps
        self.reduced: tuple[int, ...] = ()  # the last reduce-scatter of the micro-step
        self.replicated: tuple[int, ...] = ()  # the last all-reduce of the micro-step

    def gathered(self, group: int) -> Buffer:
        """The group when it is whole."""
        return ("gathered", self.mesh.param_bytes * self.groups[group].elements)

    def shard(self, group: int) -> Buffer:
        """The part of the group that is kept where it is sharded over fewer ranks after its forward pass."""
        return ("gathered", self.mesh.param_bytes * self.groups[group].elements / self.mesh.regather.n)

    def compute(self, op: str, name: str, phase: str, seconds: float, takes: tuple[Buffer, ...] = ()) -> None:
        """An op on the compute stream."""
        takes = self.taking + takes
        self.ops.append(Op(op, name, phase, "compute", seconds, self.waiting, takes=takes))
        self.last, self.waiting, self.taking = (len(self.ops) - 1,), (), ()

    def release(self, buffers: tuple[Buffer, ...]) -> None:
        """Free what the last compute op was the last to use."""
        op = self.ops[self.last[0]]
        self.ops[self.last[0]] = op._replace(gives=op.gives + buffers)

    def unshard(self, group: int, phase: str) -> None:
        """Issue the all-gather of a group that is neither whole nor on its way.

        Its buffer is there as soon as what it waits for is over: it is filled from a stream of its own while
        the network may be busy yet.
        """
        if self.whole[group] or self.gathers[group] is not None:
            return
        ring, length = self.mesh.shard, self.costs.gather[group]
        done: tuple[Buffer, ...] = ()
        if len(self.kept[group]) > 0:
            ring, length = self.mesh.regather, self.costs.regather[group]
            done = (self.shard(group),)
        self.gathers[group] = ()
        if self.mesh.shard.n > 1:
            waits = self.gate + self.kept[group]
            self.gathers[group] = (len(self.ops),)
            self.collective("all_gather", group, phase, "comm", length, waits, ring, done)
        self.kept[group] = ()

    def wait(self, group: int, phase: str) -> bool:
        """Compute waits for the all-gather of the group, and copies its buffer out; whether there was one.

        In the forward pass the next but one all-gather waits for the copy, so that two buffers are in use;
        in the backward pass the next one does.
        """
        gather = self.gathers[group]
        if gather is None:
            return False
        self.gathers[group], self.whole[group] = None, True
        if len(gather) == 0:
            self.taking += (self.gathered(group),)
            return False
        self.waiting += gather
        if phase == "backward":
            self.gate = self.last + self.waiting
            return True
        if self.copied is not None:
            self.gate = self.copied
        self.copied = self.last + self.waiting
        return True

    def reshard(self, group: int, apart: bool) -> None:
        """Free the group; ``apart``: but for shards over fewer ranks, where it was asked for them."""
        self.whole[group] = False
        self.release((self.gathered(group),))
        if apart and self.mesh.regather.n < self.mesh.shard.n:
            self.kept[group] = self.last
            op = self.ops[self.last[0]]
            self.ops[self.last[0]] = op._replace(takes=(*op.takes, self.shard(group)))

    def backward(self, use: Use, seconds: float, first: bool) -> None:
        """The backward pass of a use; ``first``: the first of several whose gradients are summed whole."""
        grads = (("buckets", self.mesh.param_bytes * use.gradients),)
        takes: tuple[Buffer, ...] = grads
        if first:
            whole = (("whole_gradients", self.mesh.reduce_bytes * use.gradients),)
            self.unreduced[use.group] += whole
            takes += whole
        self.compute("backward", self.groups[use.group].name, "backward", seconds, takes)
        self.written[use.group] += grads

    def finish(self, group: int, reshards: bool, syncs: bool) -> None:
        """The end of the backward pass of a group; ``syncs``: its gradients are reduced now."""
        self.release(self.written[group])
        self.written[group] = ()
        if reshards:
            self.reshard(group, False)
        if syncs:
            self.reduce(group)

    def reduce(self, group: int) -> None:
        """Reduce the gradients of a group: reduce-scatter, then all-reduce of the shards among replicas.

        One reduce-scatter's input is held at a time: compute waits until the one before is over.
        """
        self.waiting += self.reduced
        waits = self.last + self.waiting
        done = self.unreduced[group]
        if self.mesh.shard.n > 1:
            self.reduced = (len(self.ops),)
            length = self.costs.reduce[group]
            self.collective(
                "reduce_scatter", group, "backward", self.reductions, length, waits, self.mesh.shard, done
            )
            waits = self.reduced
        elif len(done) > 0:
            self.release(done)
        if self.mesh.replicas.n > 1:
            self.replicated = (len(self.ops),)
            length = self.costs.replicate[group]
            self.collective("all_reduce", group, "backward", "replicas", length, waits, self.mesh.replicas)

    def collective(
        self,
        op: str,
        group: int,
        phase: str,
        stream: str,
        seconds: float,
        waits: tuple[int, ...],
        ring: Cluster,
        done: tuple[Buffer, ...] = (),
    ) -> None:
        """A collective on all of a group, or on one shard of it; ``done``: what it frees beside its own."""
        mesh, elements = self.mesh, self.groups[group].elements
        dtype, each = mesh.reduce_dtype, mesh.reduce_bytes
        queues: tuple[Buffer, ...] = ()
        if op == "all_gather":
            dtype, each = mesh.param_dtype, mesh.param_bytes
            queues = (self.gathered(group),)
        elif op == "reduce_scatter":
            queues = (("buckets", each * elements),)
            done = queues + done
        else:
            elements = elements / mesh.shard.n
        name, nbytes = self.groups[group].name, each * elements
        self.ops.append(
            collective_op(
                op, name, phase, waits, elements, dtype, nbytes, ring, "", (), done, queues, stream, seconds
            )
        )
