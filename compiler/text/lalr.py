"""The LALR parser of the text format: its stacks, and the tokens that may come next."""

from __future__ import annotations

from .grammar_tables import END, Token, Value, tables


class Driver:
    """The stacks of a parser: the states, and the values between the states."""

    def __init__(self, start: str) -> None:
        self.tables = tables()
        self.states = [self.tables.start[start]]
        self.values: list[Value] = []
        self.end = self.tables.end[start]

    def feed(self, token: Token) -> bool:
        """Take a token; False if no text continues so: the stacks are then as before, but for reductions."""
        actions, states, values = self.tables.actions, self.states, self.values
        kind = token.type
        while True:
            action = actions[states[-1]].get(kind)
            if action is None:
                return False
            if type(action) is int:
                states.append(action)
                values.append(token)
                return True
            size, build, name = action
            if size:
                parts = values[-size:]
                del values[-size:], states[-size:]
            else:
                parts = []
            values.append(build(parts))
            states.append(actions[states[-1]][name])
            if kind == END and states[-1] == self.end:
                return True

    def accepts(self) -> set[str]:
        """The terminals that may come next."""
        kinds = self.tables.actions[self.states[-1]]
        return {kind for kind in kinds if kind.isupper() and self.would_take(len(self.states), kind)}

    def would_take(self, size: int, *kinds: str) -> bool:
        """Whether the parser takes these terminals once its stack of states is cut to ``size``.  The stacks stay as they are."""
        actions, below, above = self.tables.actions, size, list[int]()
        for kind in kinds:
            while True:
                action = actions[above[-1] if above else self.states[below - 1]].get(kind)
                if action is None:
                    return False
                if type(action) is int:
                    above.append(action)
                    break
                popped = min(action[0], len(above))
                del above[len(above) - popped :]
                below -= action[0] - popped
                above.append(actions[above[-1] if above else self.states[below - 1]][action[2]])
                if kind == END and above[-1] == self.end:
                    break
        return True

    def cut(self, size: int) -> None:
        """Drop the states beyond ``size`` and their values."""
        del self.states[size:], self.values[size - 1 :]
