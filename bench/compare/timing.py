# SPDX-License-Identifier: Apache-2.0
"""Several ways to do the same, timed side by side as docs/measurement.md describes it.

Each sample makes the same number of calls, on sets of buffers that together exceed twice the last-level cache, replayed from a
CUDA graph where the calls can be captured. Rounds of samples, one of each contender, follow a random order and then its
reverse; a block is several rounds, and counts as one log ratio of medians.
"""
import math
import random
import statistics

T975 = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
        2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]
ROUNDS = 6          # Of a block, after one that is thrown away in the first block.
LEAST_BLOCKS, MOST_BLOCKS = 10, 30
SAMPLE_US = 200.0   # A sample lasts at least so long, where the calls may be repeated.
SLOW_US = 5e5       # A sample that takes longer is seen once, and is not interleaved.


def interval(logs):
    """(ratio, lowest, highest) of the mean log ratio at 95 %."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = T975[min(len(logs) - 1, 30)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


class Contender:
    """`calls`: one function for each set of buffers."""

    def __init__(self, torch, label, calls, restore, capture):
        self.torch, self.label, self.calls, self.restore = torch, label, calls, restore
        self.capture, self.graph, self.repeats, self.mode, self.kept = capture, None, 1, "eager", []

    def estimate_us(self):
        """Of one call, after each set has been run once."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        for _ in range(2):
            self.restore()
            self.torch.cuda.synchronize()
            events[0].record()
            for call in self.calls:
                call()
            events[1].record()
            self.torch.cuda.synchronize()
            spent = events[0].elapsed_time(events[1]) * 1e3
            if spent > SLOW_US:
                break
        return spent / len(self.calls)

    def prepare(self, repeats):
        self.repeats = repeats
        if not self.capture:
            return
        self.restore()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        try:
            with self.torch.cuda.graph(graph):
                for _ in range(repeats):
                    # What a call allocates is kept, so that calls of a graph share no memory.
                    self.kept += [call() for call in self.calls]
        except Exception as error:  # Such as an operator that waits for the device.
            self.mode = f"eager ({type(error).__name__} in capture)"
            self.kept = []
            self.torch.cuda.synchronize()
            return
        self.graph, self.mode, self.kept = graph, "graph", []

    def sample(self, begin, end):
        begin.record()
        if self.graph is not None:
            self.graph.replay()
        else:
            for _ in range(self.repeats):
                for call in self.calls:
                    call()
        end.record()
        self.restore()


def measure(torch, contenders, seconds, repeatable=True, clock=None):
    """Medians in us a call, and log ratios of each block: {label: us}, {label: [log(us) of each block]}, calls a sample."""
    estimates = {c.label: c.estimate_us() for c in contenders}
    sets = len(contenders[0].calls)
    slow = [c for c in contenders if estimates[c.label] * sets > SLOW_US]
    for contender in slow:
        contender.mode = "one sample, not interleaved: no interval"
    contenders = [c for c in contenders if c not in slow]
    if not contenders:
        return estimates, {}, sets
    shortest = min(estimates.values()) * sets
    repeats = max(1, min(64, math.ceil(SAMPLE_US / max(shortest, 1e-3)))) if repeatable else 1
    for contender in contenders:
        contender.prepare(repeats)
    calls = sets * repeats
    draw = random.Random(7)
    samples = {c.label: [] for c in contenders}
    logs = {c.label: [] for c in contenders}
    begun = clock()
    events = {c.label: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for c in contenders}

    def one(contender):
        contender.sample(*events[contender.label])
        torch.cuda.synchronize()
        return events[contender.label][0].elapsed_time(events[contender.label][1]) * 1e3 / calls

    for contender in contenders:  # Warm-up: at least three samples.
        for _ in range(3):
            one(contender)
    rounds = ROUNDS
    while len(logs[contenders[0].label]) < MOST_BLOCKS:
        block = {c.label: [] for c in contenders}
        for turn in range(rounds):
            if turn % 2 == 0:
                order = list(contenders)
                draw.shuffle(order)
            else:
                order = order[::-1]
            for contender in order:
                block[contender.label].append(one(contender))
        for label, values in block.items():
            samples[label] += values
            logs[label].append(math.log(statistics.median(values)))
        blocks, spent = len(logs[contenders[0].label]), clock() - begun
        if blocks == 1 and spent * LEAST_BLOCKS > seconds:
            rounds = 2  # Slow ones: fewer rounds rather than fewer blocks.
        if spent > seconds and blocks >= 4:
            break
        if blocks >= LEAST_BLOCKS and all(precise(logs, a.label, contenders[0].label) for a in contenders[1:]):
            break
    medians = {label: statistics.median(values) for label, values in samples.items()}
    return {**{c.label: estimates[c.label] for c in slow}, **medians}, logs, calls


def ratio_of(logs, slow, fast):
    """How many times faster `fast` is than `slow`, with its interval."""
    return interval([a - b for a, b in zip(logs[slow], logs[fast])])


def precise(logs, a, b):
    _, low, high = ratio_of(logs, a, b)
    return math.log(high / low) / 2 < 0.005
