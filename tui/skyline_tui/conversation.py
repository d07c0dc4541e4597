"""All operations that wait for the server. They run in workers, so they post results and touch no widget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from textual.message import Message

from skyline.errors import SkylineError
from skyline.report.protocol import QuestionParams, RemoveParams, VerifyParams
from skyline.report.schema import EstimateReport
from skyline_tui import messages
from skyline_tui.messages import Post, Severity
from skyline_tui.session import ServerSession

P = ParamSpec("P")
T = TypeVar("T")


class Conversation:
    """Sends requests of a session and posts the answers; failures are posted as messages to read."""

    def __init__(self, session: ServerSession, post: Post) -> None:
        self.session = session
        self._post = post
        self._writing = asyncio.Lock()
        self._questions: LatestWins[QuestionParams] = LatestWins(self._simulate)
        self._curves: LatestWins[QuestionParams] = LatestWins(self._curve)
        self._newest: dict[str, LatestWins[Callable[[], Awaitable[None]]]] = {}

    @property
    def runs(self) -> bool:
        """True if there is a script to measure."""
        return self.session.runs

    @property
    def uri(self) -> str:
        """The script's uri."""
        return self.session.uri

    async def start(self) -> None:
        """Connect, and start the measurement of the script."""
        try:
            await self.session.start()
            if self.session.runs:
                await self.session.profile()
        except (SkylineError, OSError) as error:
            self._post(messages.ServerLost(None, str(error)))

    async def stop(self) -> None:
        """Cancel all requests and end the server."""
        await self._questions.close()
        await self._curves.close()
        for newest in list(self._newest.values()):
            await newest.close()
        await self.session.stop()

    async def profile(self) -> None:
        """Measure the script again."""
        await self._answer(self.session.profile())

    async def cancel(self) -> None:
        """Cancel the measurement."""
        await self._answer(self.session.cancel())

    async def use_later(self) -> None:
        """Show the measurement that was set aside."""
        await self._answer(self.session.use_later())

    async def fetch(self) -> None:
        """Fetch the newest profile and its what-ifs."""
        profile = await self._answer(self.session.latest())
        if profile is not None:
            self._post(messages.ProfileArrived(profile, await self._answer(self.session.whatifs())))

    def ask(self, question: QuestionParams) -> None:
        """Ask a question as soon as the current one is answered; only the newest question waits."""
        self._questions.put(question)

    def ask_nothing(self) -> None:
        """Discard the waiting question."""
        self._questions.clear()

    async def show(
        self,
        view: str,
        shown: Callable[[T], object],
        request: Callable[P, Awaitable[T]],
        *given: P.args,
        **named: P.kwargs,
    ) -> None:
        """Send a request and post its answer for ``shown``; a failure goes to ``view``, or becomes a notification."""
        await self._pass_on(request(*given, **named), partial(messages.Answered, shown), view=view)

    def show_newest(
        self,
        view: str,
        shown: Callable[[T], object],
        request: Callable[P, Awaitable[T]],
        *given: P.args,
        **named: P.kwargs,
    ) -> None:
        """Send a request as ``request`` does, once the current one of ``view`` is answered; only the newest waits."""
        newest = self._newest.setdefault(view, LatestWins(lambda work: work()))
        newest.put(lambda: self.show(view, shown, request, *given, **named))

    async def verify(self, question: QuestionParams) -> None:
        """Measure a prediction."""
        try:
            asked = VerifyParams(question.uri, question.batchSize, question.whatifs)
            self._post(messages.Verified(await self.session.verify(asked)))
        except SkylineError as error:
            self._post(messages.NotVerified(str(error)))

    async def write(self, question: QuestionParams, *, instead: bool, seen: int) -> None:
        """Make the change. With ``instead``, revert the last change first.

        ``seen`` is returned with the answer. A started write is never cancelled half-way.
        """
        await asyncio.shield(self._written(question, instead=instead, seen=seen))

    async def _written(self, question: QuestionParams, *, instead: bool, seen: int) -> None:
        async with self._writing:
            if instead:
                result = await self._answer(self.session.revert())
                if (
                    result is None
                    or not result.applied
                    or (question.batchSize is None and not question.whatifs)
                ):
                    if result is not None:
                        self._post(messages.Reverted(result))
                    return
            if question.batchSize is not None or question.whatifs:
                await self._apply(question, seen)

    async def _apply(self, question: QuestionParams, seen: int) -> None:
        """Make the change, and store its prediction."""
        expected: EstimateReport | None = None
        try:
            expected = await self.session.simulate(question)
        except SkylineError:
            # The rewrite does not depend on the prediction.
            pass
        await self._pass_on(
            self.session.apply(question),
            lambda result: messages.Applied(question, result, expected, seen),
        )

    async def revert(self) -> None:
        """Undo the last change."""
        async with self._writing:
            await self._pass_on(self.session.revert(), messages.Reverted)

    async def remove(self, whatif: str) -> None:
        """Remove a what-if from the code, by its name."""
        async with self._writing:
            asked = RemoveParams(self.uri, whatif)
            await self._pass_on(self.session.remove(asked), partial(messages.TakenOut, whatif))

    async def _simulate(self, question: QuestionParams) -> None:
        try:
            self._post(messages.EstimateArrived(question, await self.session.simulate(question)))
        except SkylineError as error:
            self._post(messages.QuestionFailed(question, str(error)))
            return
        if question.whatifs:
            # Separately: the next question need not wait for it. The server knows the curve during a drag.
            self._curves.put(QuestionParams(self.uri, None, question.whatifs, curve=True))

    async def _curve(self, asked: QuestionParams) -> None:
        try:
            answer = await self.session.simulate(asked)
            self._post(messages.CurveArrived(asked.whatifs, answer.curve or ()))
        except SkylineError as error:
            self._post(messages.QuestionFailed(asked, str(error)))

    async def _pass_on(self, asked: Awaitable[T], arrived: Callable[[T], Message], *, view: str = "") -> None:
        """Post the answer as the message ``arrived``; a failure is shown on ``view``, or as a notification."""
        try:
            self._post(arrived(await asked))
        except SkylineError as error:
            failed = messages.PictureFailed(view, str(error)) if view else None
            self._post(failed or messages.ServerSaid(str(error), Severity.ERROR))

    async def _answer(self, asked: Awaitable[T]) -> T | None:
        try:
            return await asked
        except SkylineError as error:
            self._post(messages.ServerSaid(str(error), Severity.ERROR))
            return None


Q = TypeVar("Q")


class LatestWins(Generic[Q]):
    """Prevents a drag from queueing hundreds of requests: at most one is pending, and the last one is always sent.

    ``ask`` must handle its own failures.
    """

    def __init__(self, ask: Callable[[Q], Awaitable[None]]) -> None:
        self._ask = ask
        self._waiting: list[Q] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, question: Q) -> None:
        """Send this question now, or after the pending one, in place of the waiting one."""
        self._waiting = [question]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())

    def clear(self) -> None:
        """Discard the waiting question."""
        self._waiting = []

    async def idle(self) -> None:
        """Wait until every question is answered or replaced."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Cancel the pending question too."""
        self.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        while self._waiting:
            await self._ask(self._waiting.pop())
