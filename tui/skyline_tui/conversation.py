"""Everything that waits for the server. It runs in workers, so it posts what comes of it and touches no widget."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from skyline.errors import SkylineError
from skyline.report.protocol import BestParams, DevicesParams, QuestionParams, VerifyParams
from skyline.report.schema import EstimateReport
from skyline_tui import messages
from skyline_tui.latest_wins import LatestWins
from skyline_tui.messages import Post, Severity
from skyline_tui.session import Session

T = TypeVar("T")


class Conversation:
    """Asks a session, and posts the answers; a failure is posted as something to read."""

    def __init__(self, session: Session, post: Post) -> None:
        self._session = session
        self._post = post
        self._questions: LatestWins[QuestionParams] = LatestWins(self._simulate)

    @property
    def uri(self) -> str:
        """The script, as the server calls it."""
        return self._session.uri

    async def start(self) -> None:
        """Connect, and have the script measured."""
        try:
            await self._session.start()
            await self._session.profile()
        except (SkylineError, OSError) as error:
            self._post(messages.ServerLost(None, str(error)))

    async def stop(self) -> None:
        """Give up on all answers and leave no process behind."""
        await self._questions.close()
        await self._session.stop()

    async def profile(self) -> None:
        """Have the script measured again."""
        await self._answer(self._session.profile())

    async def cancel(self) -> None:
        """Have the measuring stopped."""
        await self._answer(self._session.cancel())

    async def fetch(self) -> None:
        """The newest profile and what could be changed about it."""
        profile = await self._answer(self._session.latest())
        if profile is not None:
            self._post(messages.ProfileArrived(profile, await self._answer(self._session.whatifs())))

    def ask(self, question: QuestionParams) -> None:
        """Have a question answered, as soon as the one in flight is; only the newest one waits."""
        self._questions.put(question)

    def ask_nothing(self) -> None:
        """Forget the question that waits."""
        self._questions.clear()

    async def preview(self, question: QuestionParams) -> None:
        """The edits that apply would make."""
        preview = await self._answer(self._session.preview(question))
        if preview is not None:
            self._post(messages.Previewed(preview))

    async def best(self, wish: BestParams) -> None:
        """The fastest combination that keeps to some limits."""
        found = await self._answer(self._session.best(wish))
        if found is not None:
            self._post(messages.BestFound(found))

    async def value(self, whatif: str) -> None:
        """What one what-if would bring, as ``NAME=VALUE``."""
        estimate = await self._answer(self._session.simulate(QuestionParams(self.uri, None, (whatif,))))
        if estimate is not None:
            self._post(messages.ValueArrived(estimate))

    async def verify(self, question: QuestionParams) -> None:
        """The prediction against its measurement."""
        try:
            asked = VerifyParams(question.uri, question.batchSize, question.whatifs)
            self._post(messages.Verified(await self._session.verify(asked)))
        except SkylineError as error:
            self._post(messages.NotVerified(str(error)))

    async def devices(self, asked: DevicesParams) -> None:
        """The script on GPUs that need not be here."""
        found = await self._answer(self._session.devices(asked))
        if found is not None:
            self._post(messages.DevicesCompared(found))

    async def apply(self, question: QuestionParams) -> None:
        """Make the change, and remember what was expected of it."""
        expected: EstimateReport | None = None
        try:
            expected = await self._session.simulate(question)
        except SkylineError:
            # The rewrite does not depend on the prediction.
            pass
        result = await self._answer(self._session.apply(question))
        if result is not None:
            self._post(messages.Applied(question, result, expected))

    async def revert(self) -> None:
        """Take the last change back."""
        result = await self._answer(self._session.revert())
        if result is not None:
            self._post(messages.Reverted(result))

    async def _simulate(self, question: QuestionParams) -> None:
        try:
            self._post(messages.EstimateArrived(question, await self._session.simulate(question)))
        except SkylineError as error:
            self._post(messages.QuestionFailed(question, str(error)))

    async def _answer(self, asked: Awaitable[T]) -> T | None:
        try:
            return await asked
        except SkylineError as error:
            self._post(messages.ServerSaid(str(error), Severity.ERROR))
            return None
