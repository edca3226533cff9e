"""A model of processes that copies at every fork, and random lives to run it on."""

from hypothesis import strategies as st

from builders.sideband import KERNEL, USER, EventLog

OBJECTS = [b"/lib/a", b"/lib/b", b"/lib/c"]
NAMES = [b"one", b"two", b"three"]
SPAN = 24


class Model:
    """The definitions, word for word: a process is a dict, its mappings a list copied at fork."""

    def __init__(self):
        self.log = EventLog()
        self.time = 0
        self.alive = {}
        self.exited = []
        self.born = 0
        self.expected = []
        for pid in (10, 11):
            self.log.comm(0, pid, NAMES[0])
            self.alive[pid] = self.new_life(pid, 0)
            self.alive[pid]["comm"] = {pid: NAMES[0]}

    def new_life(self, pid, birth):
        self.born += 1
        return {"pid": pid, "life": self.born, "birth": birth, "maps": [], "comm": {}}

    def pick(self, choice):
        return self.alive[sorted(self.alive)[choice % len(self.alive)]]

    def apply(self, step):
        kind, choice, a, b, tick = step
        self.time = max(self.time + tick, 1)
        process = self.pick(choice)
        getattr(self, kind)(process, a, b)

    def fork(self, process, a, b):
        reused = a % 2 and self.exited
        pid = self.exited.pop(0) if reused else 12 + self.born
        tid = sorted(process["comm"])[b % len(process["comm"])]
        self.log.fork(self.time, process["pid"], pid, parent_tid=tid)
        child = self.new_life(pid, self.time)
        child["maps"] = list(process["maps"])
        child["comm"] = {pid: process["comm"][tid]}
        self.alive[pid] = child

    def clone(self, process, *_):
        self.born += 1
        tid = 1000 + self.born
        self.log.clone(self.time, process["pid"], tid)
        process["comm"][tid] = process["comm"][process["pid"]]

    def exec(self, process, a, _):
        pid = process["pid"]
        self.log.exec(self.time, pid, NAMES[a % 3])
        self.alive[pid] = self.new_life(pid, self.time)
        self.alive[pid]["comm"] = {pid: NAMES[a % 3]}

    def exit(self, process, *_):
        if len(self.alive) > 1:
            self.log.exit(self.time, process["pid"])
            del self.alive[process["pid"]]
            self.exited.append(process["pid"])

    def comm(self, process, a, b):
        tid = sorted(process["comm"])[b % len(process["comm"])]
        self.log.comm(self.time, process["pid"], NAMES[a % 3], tid=tid)
        process["comm"][tid] = NAMES[a % 3]

    def mmap(self, process, a, b):
        start, length, name = a % SPAN, 1 + b % 6, OBJECTS[(a + b) % 3]
        self.log.mmap(self.time, process["pid"], start, length, name, pgoff=64 * start)
        process["maps"].append((start, start + length, name, start - 64 * start))

    def sample(self, process, _, b):
        tid = sorted(process["comm"])[b % len(process["comm"])]
        for address in range(-1, SPAN + 8):
            mode = KERNEL if address < 0 else USER
            ip = 2**64 - 5 if address < 0 else address
            self.log.sample(self.time, process["pid"], ip, tid=tid, mode=mode)
            stands = [m[2:] for m in process["maps"] if m[0] <= address < m[1]]
            self.expected.append(
                {
                    "pid": process["pid"],
                    "birth": process["birth"],
                    "comm": process["comm"][tid],
                    "ip": ip,
                    "mode": mode,
                    "stands": stands[-1] if stands else None,
                    "maps": process["maps"],
                }
            )


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["fork", "clone", "exec", "exit", "comm", "mmap", "mmap", "mmap", "sample"]
        ),
        st.integers(0, 5),
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


def run_model(drawn):
    model = Model()
    for step in drawn:
        model.apply(step)
    model.time += 1
    for process in list(model.alive.values()):
        model.sample(process, 0, 0)
    return model


def describe_mapping(history, mapping):
    if mapping < 0:
        return None
    start, offset = int(history.mappings.start[mapping]), int(history.mappings.pgoff[mapping])
    return history.names[history.mappings.name[mapping]], start - offset
