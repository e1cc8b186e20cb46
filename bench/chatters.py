"""Chatters: clients with a socket that connect, talk, go on, leave and vanish; no frame is sent again."""

from __future__ import annotations

import json
from typing import Any

import app
from bench.connections import FaultyWire, context
from bench.deliveries import surprised
from bench.plans import Step
from bench.simulation import World


class Chatter:
    """One client, over several connections, one after the other."""

    def __init__(
        self, world: World, wire: FaultyWire, name: str, steps: list[Step], *, asks: bool = True
    ) -> None:
        self.world, self.wire, self.name = world, wire, name
        self.left = list(steps)
        self.id = ""
        self.interests = ""
        self.asks = asks  # how things are, once it is connected
        self.busy = 0  # frames that are still handled
        self._lives = self._said = 0
        self._token = ""

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is left to do."""
        return not self.left and not self.busy

    def act(self) -> None:
        """Do the next thing; a frame may follow the one before while that is still handled."""
        if not self.left or (self.busy and not self.world.strikes(0.1)):
            return
        step = self.left.pop(0)
        if step.kind == "connect":
            self.interests = step.what["interests"]
        if not self.id or self.id not in self.wire.open:  # it was thrown out, or never came in
            self.connect()
        elif step.kind in ("disconnect", "die", "again"):
            self.leave(step.kind)
        elif step.kind != "connect":
            self.say(step.kind, step.what.get("topic", ""))

    def connect(self) -> None:
        """Open another connection, now and then with the token of the one before."""
        self._lives += 1
        self.id = id = f"{self.name}-{self._lives}"
        query = {"interests": self.interests} | ({"resume": self._token} if self._token else {})
        self._token = ""
        event = {"requestContext": context(id), "queryStringParameters": query}

        def done(answer: Any) -> None:
            if answer["statusCode"] == 200:
                self.wire.open.add(id)
                if self.asks:
                    self.say("status", id=id)

        self._begin("$connect", app.socket_connect, event, done)

    def say(self, action: str, topic: str = "", id: str = "") -> None:
        """Send a frame, over the connection that is open now or another one."""
        self._said += 1
        id = id or self.id
        fields: dict[str, Any] = {"action": action}
        if action == "message":
            fields["text"] = f"{id} {self._said}"
            if self.busy:
                return  # what is written side by side has no order to be held
        if action == "report":
            fields["reason"] = "why"
        if action in ("subscribe", "unsubscribe"):
            fields["topic"] = topic
        if action == "resume":
            self._take_token()
        event = {"requestContext": context(id), "body": json.dumps(fields)}
        self._begin(action, app.socket_message, event)

    def leave(self, how: str) -> None:
        """Close the connection; API Gateway tells the app of it, or does not, or twice."""
        id, self.id = self.id, ""
        self.wire.open.discard(id)
        code = 1000 if self.world.chance.random() < 0.3 else 1006
        event = {"requestContext": context(id, disconnectStatusCode=code)}
        for _ in range({"disconnect": 1, "again": 2, "die": 0}[how]):
            self._begin("$disconnect", app.socket_disconnect, event)
        if how != "disconnect":
            self.world.fault("$disconnect twice" if how == "again" else "$disconnect never comes")

    def _take_token(self) -> None:
        """Keep the token that was sent before, if one was."""
        tokens = [one["token"] for one in self.wire.frames[self.id] if one["type"] == "resume"]
        self._token = tokens[-1] if tokens else ""

    def _begin(self, name: str, handler: Any, event: Any, done: Any = lambda answer: None) -> None:
        self.busy += 1

        def ended(answer: Any) -> None:
            self.busy -= 1
            done(answer)

        def failed(error: BaseException) -> None:
            self.busy -= 1
            surprised(self.world, name, error)

        self.world.start(name, lambda: handler(event, None), ended, failed)
