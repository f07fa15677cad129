"""An S3 store that costs next to no processor: what a store that has its own machines leaves to us.

A store on the two cores that are measured takes its seconds from them: SeaweedFS more than the work that is
measured. This one hashes nothing and checks no signature; bytes go between sockets and files of a folder by
the kernel, and what there is, is known in memory. It speaks what clients of S3 use here: objects, ranges,
conditions, lists, copies, several deletes at once, and objects in parts.

    python -m benchmarks.thin_store --folder objects --bucket lake
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from benchmarks.processes import ROOT, environment
from benchmarks.store_server import StoreServer
from benchmarks.thin_objects import Headers, Objects, RefusedError

_PIECE = 1 << 20
_MOST_HEAD = 64 << 10
_LISTED = 1000  # keys of an answer
_THREADS = 512  # and connections, at once
_SPAN = re.compile(r"bytes=(\d*)-(\d*)$")
_NAMED = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_PART = re.compile(r"<PartNumber>\s*(\d+)\s*</PartNumber>")
_ENTITIES = {"&quot;": '"', "&#34;": '"', "&#39;": "'", "&apos;": "'", "&lt;": "<", "&gt;": ">"}


class Connection:
    """Serves one connection to its end."""

    def __init__(self, sock: socket.socket, bucket: str, objects: Objects) -> None:
        self._sock, self._bucket, self._objects = sock, bucket, objects
        self._buffer = bytearray(_PIECE)
        self._came = memoryview(b"")

    def serve(self) -> None:
        """Answer requests until the client leaves."""
        with self._sock:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := self._head()) is not None:
                method, target, headers = request
                try:
                    self._answer(method, target, headers)
                except RefusedError as refused:
                    text = f"<Error><Code>{refused.code}</Code><Message>{refused.code}</Message></Error>"
                    self._send(refused.status, b"" if method == "HEAD" else text.encode())

    def _answer(self, method: str, target: str, headers: Headers) -> None:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
        body = self._body(headers) if method in ("PUT", "POST") else None
        if bucket != self._bucket:
            raise RefusedError(404, "NoSuchBucket")
        if not key:
            self._of_bucket(method, query, body)
        elif method in ("GET", "HEAD"):
            self._give(key, headers, with_body=method == "GET")
        elif method == "DELETE":
            if "uploadId" in query:
                self._objects.drop_parts(query["uploadId"])
            else:
                self._objects.drop(key)
            self._send(204)
        elif method == "POST":
            self._of_parts(key, query, headers, body)
        elif source := headers.get("x-amz-copy-source"):
            source = unquote(source).removeprefix("/").partition("/")[2]
            found = self._objects.copy(source, key, headers)
            text = f"<CopyObjectResult><ETag>{escape(found.tag)}</ETag><LastModified>{_time(found.at)}"
            self._send(200, f"{text}</LastModified></CopyObjectResult>".encode())
        else:
            self._put(key, query, headers, body)

    def _put(self, key: str, query: dict[str, str], headers: Headers, file: Path | None) -> None:
        assert file is not None
        try:
            if "uploadId" in query:
                tag = self._objects.take_part(query["uploadId"], int(query["partNumber"]), file)
            else:
                tag = self._objects.take(key, file, headers, headers).tag
        except RefusedError:
            file.unlink()
            raise
        self._send(200, more={"ETag": tag})

    def _of_parts(self, key: str, query: dict[str, str], headers: Headers, file: Path | None) -> None:
        assert file is not None
        text = file.read_text()
        file.unlink()
        if "uploads" in query:
            name = self._objects.begin_parts(headers)
            kind, said = "InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>"
        else:
            numbers = [int(each) for each in _PART.findall(text)]
            found = self._objects.end_parts(key, query["uploadId"], numbers, headers)
            kind, said = "CompleteMultipartUploadResult", f"<ETag>{escape(found.tag)}</ETag>"
        named = f"<Bucket>{self._bucket}</Bucket><Key>{escape(key)}</Key>"
        self._send(200, f"<{kind}>{named}{said}</{kind}>".encode())

    def _of_bucket(self, method: str, query: dict[str, str], file: Path | None) -> None:
        text = ""
        if file is not None:
            text = file.read_text()
            file.unlink()
        if method == "POST" and "delete" in query:
            keys = _NAMED.findall(text)
            for key in keys:
                self._objects.drop(_unescaped(key))
            told = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._send(200, f"<DeleteResult>{told}</DeleteResult>".encode())
        elif method == "GET" and "location" in query:
            self._send(200, b"<LocationConstraint></LocationConstraint>")
        elif method == "GET":
            self._send(200, self._listed(query).encode())
        else:  # the bucket is made, or asked for
            self._send(200)

    def _listed(self, query: dict[str, str]) -> str:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        token = query.get("continuation-token") or query.get("start-after") or query.get("marker") or ""
        most = min(int(query.get("max-keys", _LISTED)), _LISTED)
        found, folders, after = self._objects.list(prefix, delimiter, token, most)
        in_url = query.get("encoding-type") == "url"

        def shown(key: str) -> str:
            return quote(key) if in_url else escape(key)

        lines = [f"<ListBucketResult><Name>{self._bucket}</Name><Prefix>{shown(prefix)}</Prefix>"]
        lines += [f"<KeyCount>{len(found) + len(folders)}</KeyCount><MaxKeys>{most}</MaxKeys>"]
        lines += [f"<IsTruncated>{'true' if after else 'false'}</IsTruncated>"]
        lines += ["<EncodingType>url</EncodingType>"] if in_url else []
        if after:
            lines.append(f"<NextContinuationToken>{shown(after)}</NextContinuationToken>")
        lines += [
            f"<Contents><Key>{shown(key)}</Key><LastModified>{_time(each.at)}</LastModified>"
            f"<ETag>{escape(each.tag)}</ETag><Size>{each.size}</Size><StorageClass>STANDARD</StorageClass>"
            "</Contents>"
            for key, each in found
        ]
        lines += [f"<CommonPrefixes><Prefix>{shown(each)}</Prefix></CommonPrefixes>" for each in folders]
        return "".join([*lines, "</ListBucketResult>"])

    def _give(self, key: str, headers: Headers, *, with_body: bool) -> None:
        while True:
            found = self._objects.find(key)
            try:
                file = found.file.open("rb")
                break
            except FileNotFoundError:  # replaced meanwhile
                continue
        with file:
            start, stop, status = 0, found.size, 200
            more = {"ETag": found.tag, "Last-Modified": formatdate(found.at, usegmt=True), **found.headers}
            if (span := _SPAN.match(headers.get("range", ""))) and (span[1] or span[2]):
                status = 206
                if span[1]:
                    start, stop = int(span[1]), min(int(span[2] or found.size) + 1, found.size)
                else:
                    start = max(0, found.size - int(span[2]))
                if start >= found.size:
                    raise RefusedError(416, "InvalidRange")
                more["Content-Range"] = f"bytes {start}-{stop - 1}/{found.size}"
            self._say(status, {**more, "Accept-Ranges": "bytes", "Content-Length": str(stop - start)})
            while with_body and start < stop:
                start += os.sendfile(self._sock.fileno(), file.fileno(), start, stop - start)

    def _send(self, status: int, body: bytes = b"", more: Headers | None = None) -> None:
        kind = {"Content-Type": "application/xml"} if body else {}
        length = {} if status == 204 else {"Content-Length": str(len(body))}
        self._say(status, {**kind, **length, **(more or {})}, body)

    def _say(self, status: int, headers: Headers, body: bytes = b"") -> None:
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
        self._sock.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def _body(self, headers: Headers) -> Path:
        """Take the body of a request into a file of its own."""
        if headers.get("expect", "").lower() == "100-continue":
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        file = self._objects.new_file()
        with file.open("wb", buffering=0) as out:
            if "aws-chunked" in headers.get("content-encoding", ""):
                while size := int(self._line().partition(";")[0], 16):
                    self._pass(size, out.fileno())
                    self._line()
                while self._line():
                    pass
            else:
                self._pass(int(headers.get("content-length", "0")), out.fileno())
        return file

    def _pass(self, size: int, out: int) -> None:
        while size:
            came = self._more()[:size]
            if not came:
                raise ConnectionResetError
            written = os.write(out, came)
            self._came = self._came[written:]
            size -= written

    def _more(self) -> memoryview:
        if not self._came:
            self._came = memoryview(self._buffer)[: self._sock.recv_into(self._buffer)]
        return self._came

    def _until(self, end: bytes) -> bytes:
        found = b""
        while end not in found:
            came = bytes(self._more()[:_MOST_HEAD])
            if not came or len(found) > _MOST_HEAD:
                return b""
            before = len(found)
            found += came
            at = found.find(end)
            self._came = self._came[(at + len(end) if at >= 0 else len(found)) - before :]
        return found[: found.find(end)]

    def _line(self) -> str:
        return self._until(b"\r\n").decode()

    def _head(self) -> tuple[str, str, Headers] | None:
        try:
            first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        except ConnectionError:
            return None
        if not first:
            return None
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        return method, target, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _unescaped(text: str) -> str:
    for entity, letter in _ENTITIES.items():
        text = text.replace(entity, letter)
    return text.replace("&amp;", "&")


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"


def _serve(folder: Path, bucket: str) -> None:
    objects = Objects(folder)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)

        def serve() -> None:
            while True:
                _until_it_ends(Connection(listener.accept()[0], bucket, objects))

        for _ in range(_THREADS):  # they are there before anybody comes: a connection waits for none
            threading.Thread(target=serve, daemon=True).start()
        sys.stdin.read()  # its end is ours


def _until_it_ends(connection: Connection) -> None:
    try:
        connection.serve()
    except ConnectionError:
        return


@contextmanager
def running_thin_store(folder: Path, bucket: str) -> Iterator[StoreServer]:
    """Serve a bucket whose objects lie in a folder, in a process of its own that ends with the block."""
    command = [sys.executable, "-m", "benchmarks.thin_store", f"--folder={folder}", f"--bucket={bucket}"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = json.loads(process.stdout.readline())["port"]
            yield StoreServer(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.stdin.close()
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="that exists, for the objects")
    parser.add_argument("--bucket", required=True)
    given = parser.parse_args()
    sys.setswitchinterval(0.001)
    _serve(given.folder, given.bucket)
