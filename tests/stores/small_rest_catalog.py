"""A small REST catalog of Iceberg on loopback, over pyiceberg's SQL catalog; its tables lie in a folder.

It has what the specification of REST catalogs says of configuration, tokens, namespaces and tables, and tells
by `endpoints` that it has nothing else. A commit is taken by the SQL catalog's own check of what it requires
and of the metadata file that it replaces, so two at once are told apart.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import ValidationError
from pyiceberg.catalog.rest import CreateTableRequest, RegisterTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertCreate
from pyiceberg.typedef import Identifier
from sqlalchemy.exc import OperationalError

from tests.stores.http_serving import PlainHandler, running_http
from tests.stores.rest_messages import SEPARATOR, Answer, Request, ToldError, page_of

CLIENT, SECRET = "astronomer", "a-secret-of-the-small-lake"
PREFIX = "small"
_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"


_ERRORS: dict[type[Exception], tuple[int, str]] = {
    NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    NoSuchTableError: (404, "NoSuchTableException"),
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    NamespaceNotEmptyError: (409, "NamespaceNotEmptyException"),
    TableAlreadyExistsError: (409, "AlreadyExistsException"),
    CommitFailedException: (409, "CommitFailedException"),
    ValidationError: (400, "BadRequestException"),
    ValueError: (400, "BadRequestException"),
    KeyError: (400, "BadRequestException"),
    NotImplementedError: (406, "UnsupportedOperationException"),
    OperationalError: (503, "ServiceUnavailableException"),  # the database is busy
}


@dataclass
class SmallCatalog:
    """A running catalog.

    Attributes
    ----------
    uri : str
    tables : SqlCatalog
        What it stands on.
    expires : int
        After how many seconds the clients' tokens expire.
    """

    tables: SqlCatalog
    uri: str = ""
    expires: int = 3600
    tokens: set[str] = field(default_factory=set)

    @property
    def connection(self) -> dict[str, Any]:
        """The Airflow connection of an OAuth2 client."""
        return {"conn_type": "http", "host": self.uri, "login": CLIENT, "password": SECRET}

    def config(self, request: Request) -> Answer:
        endpoints = [f"{method} {path}" for method, path in _ROUTES if "oauth" not in path]
        known = request.query.get("warehouse", PREFIX)
        if known != PREFIX:
            raise ToldError(400, "BadRequestException", f"there is no warehouse {known!r}")
        return Answer(200, {"defaults": {}, "overrides": {"prefix": PREFIX}, "endpoints": endpoints})

    def token(self, request: Request) -> Answer:
        asked = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        given = (asked.get("client_id"), asked.get("client_secret"))
        basic = request.headers.get("Authorization", "")
        if basic.startswith("Basic "):
            try:
                name, _, word = base64.b64decode(basic[6:], validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                name, word = "", ""
            given = (name, word)
        if asked.get("grant_type") != "client_credentials":
            return Answer(400, {"error": "unsupported_grant_type"})
        if given != (CLIENT, SECRET):
            return Answer(401, {"error": "invalid_client", "error_description": "no such client"})
        token = secrets.token_urlsafe()
        self.tokens.add(token)
        return Answer(200, {"access_token": token, "token_type": "bearer", "expires_in": self.expires})

    def check_token(self, headers: Any) -> None:
        """Raise if a request bears no token of ours."""
        kind, _, token = headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or token not in self.tokens:
            raise ToldError(401, "NotAuthorizedException", "no such token")

    def list_namespaces(self, request: Request) -> Answer:
        parent = request.query.get("parent", "")
        found = self.tables.list_namespaces(tuple(parent.split(SEPARATOR)) if parent else ())
        page, more = page_of(sorted(found), request)
        return Answer(200, {"namespaces": [list(each) for each in page], **more})

    def create_namespace(self, request: Request) -> Answer:
        told = request.told()
        namespace, properties = tuple(told["namespace"]), told.get("properties") or {}
        if not namespace or not all(isinstance(each, str) and each for each in namespace):
            raise ValueError("a namespace has one level or more, each of them a name")
        self.tables.create_namespace(namespace, properties)
        return Answer(200, {"namespace": list(namespace), "properties": properties})

    def load_namespace(self, request: Request) -> Answer:
        found = self.tables.load_namespace_properties(request.namespace)
        return Answer(200, {"namespace": list(request.namespace), "properties": dict(found)})

    def has_namespace(self, request: Request) -> Answer:
        if not self.tables.namespace_exists(request.namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(request.namespace)}")
        return Answer()

    def drop_namespace(self, request: Request) -> Answer:
        self.tables.drop_namespace(request.namespace)
        return Answer()

    def change_namespace(self, request: Request) -> Answer:
        told = request.told()
        removals, updates = set(told.get("removals") or ()), told.get("updates") or {}
        if both := sorted(removals & set(updates)):
            raise ToldError(422, "UnprocessableEntityException", f"both removed and updated: {both}")
        done = self.tables.update_namespace_properties(request.namespace, removals, updates)
        return Answer(200, {"removed": done.removed, "updated": done.updated, "missing": done.missing})

    def list_tables(self, request: Request) -> Answer:
        page, more = page_of(sorted(self.tables.list_tables(request.namespace)), request)
        named = [{"namespace": list(each[:-1]), "name": each[-1]} for each in page]
        return Answer(200, {"identifiers": named, **more})

    def create_table(self, request: Request) -> Answer:
        asked = CreateTableRequest.model_validate(
            {"location": None, "partition-spec": None, "write-order": None, **request.told()}
        )
        name = (*request.namespace, asked.name)
        if not self.tables.namespace_exists(request.namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(request.namespace)}")
        made = (
            name,
            asked.table_schema,
            asked.location,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            asked.write_order or UNSORTED_SORT_ORDER,
            asked.properties,
        )
        if not asked.stage_create:
            return _loaded(self.tables.create_table(*made))
        if self.tables.table_exists(name):
            raise TableAlreadyExistsError(f"Table already exists: {'.'.join(name)}")
        staged = self.tables._create_staged_table(*made)
        return Answer(200, {"metadata": _plain(staged.metadata), "config": {}})

    def register_table(self, request: Request) -> Answer:
        asked = RegisterTableRequest.model_validate({"overwrite": False, **request.told()})
        if asked.overwrite:
            raise NotImplementedError("overwrite")
        return _loaded(self.tables.register_table((*request.namespace, asked.name), asked.metadata_location))

    def load_table(self, request: Request) -> Answer:
        table = self.tables.load_table(request.table)
        answer = _loaded(table)
        if request.headers.get("If-None-Match") == answer.etag:
            return Answer(304, etag=answer.etag)
        if request.query.get("snapshots", "all") == "refs":
            kept = {each.snapshot_id for each in table.refs().values()}
            told = answer.body["metadata"]
            told["snapshots"] = [each for each in told.get("snapshots", ()) if each["snapshot-id"] in kept]
        return answer

    def has_table(self, request: Request) -> Answer:
        self.tables.load_table(request.table)
        return Answer()

    def commit_table(self, request: Request) -> Answer:
        asked = CommitTableRequest.model_validate(
            {
                "identifier": {"namespace": list(request.namespace), "name": request.parts["table"]},
                **request.told(),
            }
        )
        wanted = (*asked.identifier.namespace.root, asked.identifier.name)
        if wanted != request.table:
            raise ValueError(f"the path is of table {request.table}, the request of {wanted}")
        creates = any(isinstance(each, AssertCreate) for each in asked.requirements)
        try:
            table = self.tables.load_table(request.table)
        except NoSuchTableError:
            if not creates:
                raise
            table = _Named(request.table)  # type: ignore[assignment]
        try:
            done = self.tables.commit_table(table, asked.requirements, asked.updates)
        except TableAlreadyExistsError as error:
            raise CommitFailedException(str(error)) from error
        body = {"metadata-location": done.metadata_location, "metadata": _plain(done.metadata)}
        return Answer(200, body, _etag(done.metadata_location))

    def drop_table(self, request: Request) -> Answer:
        if request.query.get("purgeRequested", "false").lower() == "true":
            self.tables.purge_table(request.table)
        else:
            self.tables.drop_table(request.table)
        return Answer()

    def rename_table(self, request: Request) -> Answer:
        old, new = (request.told()[end] for end in ("source", "destination"))
        source, target = ((*end["namespace"], end["name"]) for end in (old, new))
        self.tables.load_table(source)
        self.tables.rename_table(source, target)
        return Answer()


class _Named(NamedTuple):
    """A table that is about to be made: all that a commit asks of it is its name."""

    identifier: Identifier

    def name(self) -> Identifier:
        return self.identifier


_ROUTES: dict[tuple[str, str], Callable[[SmallCatalog, Request], Answer]] = {
    ("GET", "/v1/config"): SmallCatalog.config,
    ("POST", "/v1/oauth/tokens"): SmallCatalog.token,
    ("GET", "/v1/{prefix}/namespaces"): SmallCatalog.list_namespaces,
    ("POST", "/v1/{prefix}/namespaces"): SmallCatalog.create_namespace,
    ("GET", _NAMESPACE): SmallCatalog.load_namespace,
    ("HEAD", _NAMESPACE): SmallCatalog.has_namespace,
    ("DELETE", _NAMESPACE): SmallCatalog.drop_namespace,
    ("POST", f"{_NAMESPACE}/properties"): SmallCatalog.change_namespace,
    ("GET", f"{_NAMESPACE}/tables"): SmallCatalog.list_tables,
    ("POST", f"{_NAMESPACE}/tables"): SmallCatalog.create_table,
    ("POST", f"{_NAMESPACE}/register"): SmallCatalog.register_table,
    ("GET", _TABLE): SmallCatalog.load_table,
    ("HEAD", _TABLE): SmallCatalog.has_table,
    ("POST", _TABLE): SmallCatalog.commit_table,
    ("DELETE", _TABLE): SmallCatalog.drop_table,
    ("POST", "/v1/{prefix}/tables/rename"): SmallCatalog.rename_table,
}


def _plain(metadata: TableMetadata) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(metadata.model_dump_json())
    return found


def _etag(location: str) -> str:
    return f'"{sha256(location.encode()).hexdigest()[:32]}"'


def _loaded(table: Table) -> Answer:
    body = {"metadata-location": table.metadata_location, "metadata": _plain(table.metadata), "config": {}}
    return Answer(200, body, _etag(table.metadata_location))


def route_of(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The path of the specification that a request's is of, and what stands in it; None if it is of none.

    Parameters
    ----------
    method : str
    path : str
        As it came, without its query.
    """
    given = path.split("/")
    for known, template in _ROUTES:
        wanted = template.split("/")
        if known != method or len(wanted) != len(given):
            continue
        fits = (a == b or (a.startswith("{") and b) for a, b in zip(wanted, given, strict=True))
        if all(fits):
            named = zip(wanted, given, strict=True)
            return template, {a[1:-1]: unquote(b) for a, b in named if a.startswith("{")}
    return None


class _Handler(PlainHandler):
    catalog: SmallCatalog

    def reply(self, body: bytes) -> None:
        try:
            answer = self._answer(body)
        except ToldError as told:
            answer = Answer(told.status, told.body())
        except Exception as error:
            known = next((each for each in type(error).__mro__ if each in _ERRORS), None)
            status, kind = _ERRORS[known] if known else (500, "InternalServerError")
            answer = Answer(status, ToldError(status, kind, str(error) or kind).body())
        headers = {"ETag": answer.etag} if answer.etag else {}
        if answer.body is None:
            self.answer(answer.status, headers=headers)
        else:
            data = json.dumps(answer.body).encode()
            self.answer(answer.status, data, headers | {"Content-Type": "application/json"})

    def _answer(self, body: bytes) -> Answer:
        parsed = urlsplit(self.path)
        found = route_of(self.command, parsed.path)
        if found is None:
            raise ToldError(404, "NotFoundException", f"no endpoint {self.command} {parsed.path}")
        template, parts = found
        if parts.get("prefix", PREFIX) != PREFIX:
            raise ToldError(404, "NotFoundException", f"there is no catalog {parts['prefix']!r}")
        if "oauth" not in template:
            self.catalog.check_token(self.headers)
        query = parse_qs(parsed.query, keep_blank_values=True)
        asked = Request(parts, {name: values[0] for name, values in query.items()}, self.headers, body)
        return _ROUTES[self.command, template](self.catalog, asked)


@contextmanager
def running_small_catalog(database: str, warehouse: str) -> Iterator[SmallCatalog]:
    """Serve the catalog of a database.

    Parameters
    ----------
    database : str
        Its address, as SQLAlchemy writes it.
    warehouse : str
        The folder of its tables.
    """
    catalog = SmallCatalog(SqlCatalog(PREFIX, uri=database, warehouse=warehouse))
    try:
        with running_http(_Handler, catalog=catalog) as catalog.uri:
            yield catalog
    finally:
        catalog.tables.close()
