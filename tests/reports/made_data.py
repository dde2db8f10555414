"""Makes data in a report's format without a model: of any size, and with any names."""

from collections import defaultdict

PASSES = ("forward", "backward", "update")
KINDS = ("linear", "add", "gelu", "softmax", "layer_norm")
FORMS = ("traced", "normal", "differentiated", "placed", "program")
KIB = 1024


def add(table, **row):
    """Appends a row to a table whose columns are lists; returns its number."""
    for column, value in row.items():
        table[column].append(value)
    return len(table[next(iter(row))]) - 1


class Maker:
    """Makes rows of instructions, IPU after IPU, and the tables that depend on them."""

    def __init__(self, ops, events, ipus, name):
        self.ops, self.events, self.ipus, self.name = ops, events, ipus, name
        self.numbers = {"": 0}
        self.instructions = defaultdict(list)
        self.allocations = defaultdict(list)
        self.always = defaultdict(list)

    def text(self, text):
        return self.numbers.setdefault(text, len(self.numbers))

    def path(self, number):
        block, layer = number % 12, number // 12 % 3
        return f"{self.name}.{block}.{('attention', 'mlp', 'norm')[layer]}"

    def add_instruction(self, ipu, kind, number, pass_, cycles, count=8, tiles=0):
        op = KINDS[number % len(KINDS)] if kind == "compute" else kind
        return add(
            self.instructions,
            **{"pass": self.text(pass_)},
            ipu=ipu,
            kind=self.text(kind),
            op=self.text(op),
            name=self.text(f"{op}_{number}"),
            module=self.text(self.path(number)),
            block=self.text(f"block{number % 12}"),
            stage=ipu,
            phase=-1,
            file=self.text(__file__),
            line=5 + number % 3,
            cycles=cycles,
            count=count,
            bytes=64 * (number % 50 + 1),
            op_id=number + 1,
            parent=-1,
            tiles=tiles,
        )

    def add_ipu(self, ipu):
        own = self.ops // self.ipus
        first = len(self.instructions["ipu"])
        self.add_instruction(ipu, "stream_in", ipu * own, "transfer", 900, tiles=1)
        for i in range(own):
            pass_ = PASSES[3 * i // own]
            number = ipu * own + i
            row = self.add_instruction(ipu, "compute", number, pass_, 150 + 37 * (number % 91))
            kind = ("activation", "gradient", "update")[PASSES.index(pass_)]
            far = own // 2 if kind == "activation" and i % 7 == 0 else 3
            add(
                self.allocations,
                ipu=ipu,
                name=self.text(f"t{number}"),
                module=self.text(self.path(number)),
                kind=self.text(kind),
                offset=64 * number,
                bytes=64 * (number % 50 + 1),
                first=row,
                last=min(row + far, first + own),
            )
        self.add_instruction(ipu, "send", ipu * own + own, "transfer", 700)
        self.add_instruction(ipu, "sync", ipu * own + own, "transfer", 60)
        for i in range(24):
            kind = ("weight", "optimiser_state", "constant", "streaming")[i % 4]
            add(
                self.always,
                ipu=ipu,
                name=self.text(f"{self.path(i)}.w{ipu}_{i}"),
                module=self.text(self.path(i)),
                kind=self.text(kind),
                bytes=2 * KIB * (i + 1),
            )

    def execution(self):
        """Repeats the instructions of each lane's IPU in turn."""
        events = defaultdict(list)
        rows = self.of_ipus()
        times = [300 * ipu for ipu in range(self.ipus)]
        for number in range(self.events):
            ipu = number % self.ipus
            turn = number // self.ipus
            row = rows[ipu][turn % len(rows[ipu])]
            cycles = self.instructions["cycles"][row]
            add(
                events,
                lane=ipu,
                start=times[ipu],
                cycles=cycles,
                instruction=row,
                micro_batch=turn // len(rows[ipu]),
                rounds=1,
            )
            times[ipu] += cycles + (400 if turn % 9 == 0 else 0)
        return {
            "lanes": [{"ipu": ipu, "tiles": 0} for ipu in range(self.ipus)],
            "events": dict(events),
            "complete": False,
            "shown_cycles": max(times),
            "total_cycles": max(times) * 2,
        }

    def of_ipus(self):
        rows = [[] for _ in range(self.ipus)]
        for row, ipu in enumerate(self.instructions["ipu"]):
            rows[ipu].append(row)
        return rows

    def memory(self, capacity):
        ipus = []
        for ipu, rows in enumerate(self.of_ipus()):
            own = [i for i, of in enumerate(self.allocations["ipu"]) if of == ipu]
            sizes = self.allocations["bytes"]
            peak = rows[len(rows) // 2]
            first, last = self.allocations["first"], self.allocations["last"]
            live = [i for i in own if first[i] <= peak <= last[i]]
            held = sum(sizes[i] for i in live)
            streaming = self.text("streaming")
            kept = zip(self.always["ipu"], self.always["kind"], self.always["bytes"], strict=True)
            always = sum(size for of, kind, size in kept if of == ipu and kind != streaming)
            needed = always + held + 128
            remedy = {"saving": needed // 2, "text": "keep the optimiser's state off the chip"}
            ipus.append(
                {
                    "needed": needed,
                    "capacity": capacity,
                    "always": always,
                    "arena": held + 128,
                    "peak": {
                        "instruction": peak,
                        "bytes": held,
                        "fragmentation": 128,
                        "allocations": sorted(live, key=lambda i: -sizes[i])[:100],
                    },
                    "tile_groups": self.tile_groups(rows, always, held, capacity),
                    "remedies": [remedy] if needed > capacity else [],
                }
            )
        return {
            "always": dict(self.always),
            "allocations": dict(self.allocations),
            "ipus": ipus,
            "streaming": {"needed": 0, "capacity": 10**11},
        }

    def tile_groups(self, rows, always, held, capacity):
        """Puts nothing on the I/O tiles."""
        return [
            {
                "name": name,
                "tiles": tiles,
                "capacity": capacity * tiles // 1472,
                "always": own,
                "needed": own + live,
                "instruction": at,
            }
            for name, tiles, own, live, at in (
                ("compute", 1440, always, held, rows[len(rows) // 2]),
                ("io", 32, 0, 0, -1),
            )
        ]

    def modules(self):
        """Returns a row for the whole, and one for each path and those above it."""
        paths = {""}
        for number in range(36):
            parts = self.path(number).split(".")
            paths |= {".".join(parts[: i + 1]) for i in range(len(parts))}
        paths = sorted(paths, key=lambda path: (path.count("."), path))
        found = defaultdict(list)
        for path in paths:
            share = {1: 12, 2: 36}.get(path.count(".") - self.name.count("."), 1)
            above = paths.index(path.rpartition(".")[0]) if path else -1
            add(
                found,
                path=self.text(path),
                parent=above,
                parameter_bytes=72 * KIB // share,
                parameters=18 * KIB // share,
                activation_bytes=36 * KIB // share,
                cycles=3_600_000 // share,
                instructions=self.ops // share,
                ipu=-1,
            )
        return dict(found)

    def crossings(self):
        found = defaultdict(list)
        send = self.text("send")
        for row, kind in enumerate(self.instructions["kind"]):
            ipu = self.instructions["ipu"][row]
            if kind == send:
                add(
                    found,
                    from_ipu=ipu,
                    to_ipu=(ipu + 1) % self.ipus,
                    name=self.instructions["name"][row],
                    module=self.instructions["module"][row],
                    bytes=4096 * (ipu + 1),
                    cycles=700,
                    count=8,
                    instruction=row,
                )
        return dict(found)

    def forms(self):
        """Returns each op once in each form, with operands as texts of a real program have them."""
        ids = list(range(1, self.ops + 1))

        def line(form, i):
            op = KINDS[(i - 1) % 5]
            operands = f"%v{i * 7919 % 65521}, %{self.path(i)}.weight"
            shape = f"f16[{i % 64 + 1},{i % 257}]"
            return f"%{op}_{i} = {op}({operands}) : {shape} @[{form} stage={i % 4}]"

        return {form: {"op_id": ids, "text": [line(form, i) for i in ids]} for form in FORMS}


def make(ops=400, events=2000, ipus=4, name="decoder.layers", capacity=1024 * KIB, slower=1):
    """Makes a report's data.

    Args:
        ops: Compute instructions, of all IPUs.
        events: Of the execution.
        ipus: Of the one replica.
        name: The path above all modules.
        capacity: Of each IPU, in bytes.
        slower: The factor of modules' cycles.
    """
    maker = Maker(ops, events, ipus, name)
    for ipu in range(ipus):
        maker.add_ipu(ipu)
    modules = maker.modules()
    modules["cycles"] = [cycles * slower for cycles in modules["cycles"]]
    execution = maker.execution()
    cycles = execution["total_cycles"]
    shares = {"compute": 0.5, "exchange": 0.1, "host": 0.1, "streaming": 0.0, "waiting": 0.3}
    parts = zip(("compute", "link", "host", "streaming", "idle"), shares.values(), strict=True)
    work = {f"{word}_cycles": int(share * cycles) for word, share in parts}
    words = ("state", "arena", "stash", "code", "capacity", "needed", "weight", "optimiser")
    words += ("accumulator", "constant", "link", "gateway", "host", "streaming")
    none = ("overlapped", "gateway", "host_wait", "link_wait")
    work |= {**{f"{word}_cycles": 0 for word in none}, **{f"{word}_bytes": 0 for word in words}}
    data = {
        "format": "poptorch-report",
        "version": 1,
        "model": {
            "name": name,
            "kind": "training",
            "class": "Decoder",
            "library_version": "0.0.0",
            "strategy": "pipelined",
            "micro_batches_per_run": 8,
            "samples_per_run": 32,
        },
        "target": {
            "device": "ipu2",
            "clock_hz": 1.33e9,
            "tiles": 1472,
            "io_tiles": 32,
            "bytes_per_ipu": capacity,
            "ipus": ipus,
            "replicas": 2,
            "instances": 1,
            "idle_ipus": 0,
        },
        "options": {"Training.gradientAccumulation": "8"},
        "summary": {
            "cycles_per_run": cycles,
            "seconds_per_run": cycles / 1.33e9,
            "samples_per_second": 32 / (cycles / 1.33e9),
            "bound_by": "compute",
            "shares": shares,
        },
        "measured": {
            "runs": 10,
            "run_seconds": 1.2,
            "host_wait_seconds": 0.3,
            "compile_seconds": 2.5,
            "reference_kernels": {"index_put": 0.07},
        },
        "advice": [
            {
                "kind": "pipeline",
                "page": "execution",
                "text": "Stage 2 takes 3.0 times the mean of the stages.",
                "cure": f"Move modules of {name}.7 to stage 1.",
                "figure": 3.0,
                "unit": "times",
                "ipu": 2,
            }
        ],
        "ipus": [dict(work) for _ in range(ipus)],
        "stages": [
            {"stage": i, "ipu": i, "cycles": 1000 * (3 if i == 2 else 1), "blocks": [f"block{i}"]}
            for i in range(ipus)
        ],
        "streams": [],
        "ops": [],
        "collectives": [
            {
                "ipu": 0,
                "module": f"{name}.0",
                "op": "all_reduce",
                "part": part,
                "links": links,
                "members": 2,
                "count": 1,
                "bytes": size,
                "cycles": 2 * size,
            }
            for part, links, size in (
                ("reduce_scatter", "IPU-Links", 500),
                ("all_reduce", "GW-Links", 250),
                ("all_gather", "IPU-Links", 500),
            )
        ],
        "instructions": dict(maker.instructions),
        "memory": maker.memory(capacity),
        "execution": execution,
        "graph": {
            "modules": modules,
            "crossings": maker.crossings() if ipus > 1 else {},
            "forms": maker.forms(),
        },
        "compile": {
            "seconds": 2.5,
            "cached": False,
            "passes": [
                {
                    "name": f"pass_{i}",
                    "seconds": 0.1 * (i % 5),
                    "ops_before": ops + i,
                    "ops_after": ops + i + (-3 if i % 2 else 5),
                }
                for i in range(24)
            ],
        },
    }
    data["strings"] = list(maker.numbers)
    return data
