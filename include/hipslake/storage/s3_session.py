"""The HTTP session of S3 clients: each request ends in time, its body included."""

from __future__ import annotations

from typing import Any

import aiohttp
from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from hipslake.storage.waiting import client_timeout, note_answer, note_request, note_silence


class LimitedSession(AIOHTTPSession):  # type: ignore[misc]
    """Applies the limits in force to each request, and counts the requests without an answer."""

    def _get_request_timeout(self, request: Any) -> aiohttp.ClientTimeout:
        return client_timeout()

    async def send(self, request: Any) -> Any:
        """Send a request; `ReadTimeoutError` and `ConnectTimeoutError` while tries are left."""
        # botocore asks before each body whether it may send it (`Expect: 100-continue`): a round trip of its
        # own, and of a small object half of the time. A store that refuses has then got the body in vain.
        request.headers.pop("Expect", None)
        note_request()
        try:
            response = await super().send(request)
        except ConnectTimeoutError:
            note_silence(connected=False)
            raise
        except ReadTimeoutError as error:
            if isinstance(error.__context__, aiohttp.SocketTimeoutError):  # else of the request as a whole
                note_silence(connected=True)
            raise
        if not request.stream_output:  # of a stream, only the headers are there
            note_answer()
        return response
