"""What happens to the workers and the nodes of a cluster."""

import time

from benchmarks.chaos.killer import Killer
from django_leasequeue import clock

# Seconds for which a node is without the others, and in which all take part once it is over.
ALONE, MENDED = (2, 8), 240


class ClusterKiller(Killer):
    """Kills processes of workers and, if `nodes` are given, one of these at a time."""

    def __init__(self, workers, nodes, seed):
        super().__init__(workers, None, seed)
        self._nodes = nodes
        # A node that is struck, until it takes part again.
        self._struck = None
        self._blows = [self.kill_child, self.kill_supervisor]
        if nodes:
            self._blows += [self.kill_node, self.isolate]

    def close(self):
        """Undo what can be undone; raise AssertionError if a node does not join again."""
        super().close()
        self._all_take_part()

    def _all_take_part(self):
        ends = clock.now() + MENDED
        while not all(node.is_ready() for node in self._nodes):
            assert clock.now() < ends, "A node has not joined the others again."
            time.sleep(0.2)

    def kill_node(self, worker):
        """SIGKILL to a node, which joins the others again."""
        return self._strike(self._kill)

    def isolate(self, worker):
        """Cut a node off from the others, which makes it refuse every statement, and back."""
        return self._strike(self._isolate)

    def _strike(self, how):
        if self._struck is not None:
            return False
        self._struck = self._dice.choice(self._nodes)

        def act():
            how(self._struck)
            # Not before all take part: the last two can't spare another.
            self._all_take_part()
            self._struck = None

        self._aside(act)
        return True

    def _kill(self, node):
        node.crash()
        node.revive()

    def _isolate(self, node):
        node.isolate(True)
        time.sleep(self._dice.uniform(*ALONE))
        node.isolate(False)
