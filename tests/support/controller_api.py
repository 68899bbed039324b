# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the API of AWX: it keeps what it is sent, and refuses what AWX refuses of surveys and of references.

The rules are those of AWX 24 (github.com/ansible/awx: JobTemplateSurveySpec in awx/api/views/__init__.py, and
SurveyJobTemplateMixin in awx/main/models/mixins.py), the requests those of collection awx.awx.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_REFERENCES = {
    "organization": "organizations", "project": "projects", "inventory": "inventories",
    "execution_environment": "execution_environments", "source_project": "projects",
}  # fmt: skip
_TEMPLATES = ("job_templates", "workflow_job_templates", "projects", "inventory_sources", "workflow_approval_templates")
_TYPES = {"text": str, "textarea": str, "password": str, "integer": int, "float": float,
          "multiplechoice": str, "multiselect": (str, list)}  # fmt: skip
_LISTS_OF_NODES = ("success_nodes", "failure_nodes", "always_nodes")


class Controller:
    """What the controller has: objects by kind and number, surveys by template, members by list; and what was asked."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[int, dict[str, Any]]] = {}
        self.surveys: dict[str, dict[str, Any]] = {}
        self.members: dict[str, list[int]] = {}
        self.changes: list[str] = []
        self.url = ""
        self._lock = threading.Lock()

    def names(self, kind: str) -> list[str]:
        return [item["name"] for item in self.objects.get(kind, {}).values()]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Return the status and what is answered."""
        with self._lock:
            words = path.removeprefix("/api/v2/").strip("/").split("/")
            if path.rstrip("/") in ("/api", "/api/v2/ping", "/api/v2"):
                return 200, {"current_version": "/api/v2/", "version": "24.6.1"}
            if method != "GET":
                self.changes.append(f"{method} {path}")
            if len(words) == 1:
                return self._list(words[0], query) if method == "GET" else self._create(words[0], body)
            item = self._one(words[0], words[1])
            if item is None:
                return 404, {"detail": "Not found."}
            if len(words) == 2:
                return self._object(method, words[0], item, body)
            return self._below(method, words[0], item, words[2], body)

    def _one(self, kind: str, name_or_id: str) -> dict[str, Any] | None:
        found = self.objects.get(kind, {})
        return found.get(int(name_or_id)) if name_or_id.isdigit() else None

    def _list(self, kind: str, query: dict[str, str]) -> tuple[int, Any]:
        kinds = _TEMPLATES if kind == "unified_job_templates" else (kind,)
        items = [item for each in kinds for item in self.objects.get(each, {}).values()]
        for field, wanted in query.items():
            name, _sep, how = field.partition("__")
            if name in ("page_size", "page", "or"):
                continue
            if how == "startswith":
                items = [item for item in items if str(item.get(name, "")).startswith(wanted)]
            elif not how:
                items = [item for item in items if str(item.get(name)) == wanted]
            elif how == "name":
                items = [item for item in items if self._name_of(name, item) == wanted]
        return 200, _page(items)

    def _name_of(self, field: str, item: dict[str, Any]) -> str:
        found = self.objects.get(_REFERENCES.get(field, ""), {}).get(item.get(field) or 0, {})
        return str(found.get("name", ""))

    def _create(self, kind: str, body: dict[str, Any], **more: Any) -> tuple[int, Any]:
        if wrong := self._wrong(kind, body):
            return 400, wrong
        number = 1 + sum(len(items) for items in self.objects.values())
        url = f"/api/v2/{kind}/{number}/"
        item = {
            **body,
            **more,
            "id": number,
            "url": url,
            "type": kind.removesuffix("s"),
            "status": "successful",
            "scm_revision": "",
        }
        item["related"] = {
            "survey_spec": f"{url}survey_spec/",
            "create_approval_template": f"{url}create_approval_template/",
        }
        item["summary_fields"] = {}
        self.objects.setdefault(kind, {})[number] = item
        return 201, item

    def _wrong(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        for field, of in _REFERENCES.items():
            if body.get(field) and int(body[field]) not in self.objects.get(of, {}):
                return {field: [f"Invalid pk {body[field]!r} - object does not exist."]}
        if kind == "job_templates" and "playbook" in body and not str(body["playbook"]).endswith(".yml"):
            return {"playbook": ["Playbook not found for project."]}
        if kind == "schedules" and not str(body.get("rrule", "DTSTART RRULE:")).startswith("DTSTART"):
            return {"rrule": ["Valid DTSTART required in rrule."]}
        return {}

    def _object(self, method: str, kind: str, item: dict[str, Any], body: Any) -> tuple[int, Any]:
        if method == "PATCH":
            if wrong := self._wrong(kind, body):
                return 400, wrong
            item.update(body)
        elif method == "DELETE":
            del self.objects[kind][item["id"]]
            return 204, None
        return 200, item

    def _below(self, method: str, kind: str, item: dict[str, Any], below: str, body: Any) -> tuple[int, Any]:
        if below == "survey_spec":
            if method == "GET":
                return 200, self.surveys.get(item["url"], {})
            if wrong := survey_problem(body):
                return 400, {"error": wrong}
            self.surveys[item["url"]] = body
            return 200, {}
        if below == "create_approval_template":
            _status, template = self._create("workflow_approval_templates", body)
            item["related"]["unified_job_template"] = template["url"]
            return 201, template
        if below == "workflow_nodes":
            if method == "POST":
                return self._create("workflow_job_template_nodes", {**body, "workflow_job_template": item["id"]})
            nodes = self.objects.get("workflow_job_template_nodes", {}).values()
            return 200, _page([node for node in nodes if node["workflow_job_template"] == item["id"]])
        members = self.members.setdefault(f"{kind}/{item['id']}/{below}", [])
        of = "workflow_job_template_nodes" if below in _LISTS_OF_NODES else below
        if method == "GET":
            return 200, _page([self.objects[of][number] for number in members])
        if body.get("disassociate"):
            members.remove(body["id"])
        elif body["id"] not in members:
            members.append(body["id"])
        return 204, None


def survey_problem(survey: dict[str, Any]) -> str:
    """Return why AWX refuses a survey; empty if it takes it."""
    if not all(
        isinstance(survey.get(field), kind) for field, kind in (("name", str), ("description", str), ("spec", list))
    ):
        return "name, description or spec is missing"
    if not survey["spec"]:
        return "'spec' doesn't contain any items."
    names = [question.get("variable") for question in survey["spec"]]
    if len(set(names)) < len(names):
        return "a variable is duplicated"
    return next(filter(None, map(_question_problem, survey["spec"])), "")


def _question_problem(question: dict[str, Any]) -> str:
    for field, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
        if not isinstance(question.get(field), kind):
            return f"{field} of {question}"
    if question["type"] not in _TYPES:
        return f"type {question['type']!r} is not allowed"
    if question.get("default", "") != "" and not isinstance(question["default"], _TYPES[question["type"]]):
        return f"default of {question['variable']}"
    if any(question.get(limit) is not None and not isinstance(question[limit], int) for limit in ("min", "max")):
        return f"limits of {question['variable']}"
    if question["type"] in ("multiplechoice", "multiselect") and not question.get("choices"):
        return f"{question['variable']} must specify choices"
    return ""


def _page(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"count": len(items), "next": None, "previous": None, "results": items}


@contextmanager
def controller() -> Iterator[Controller]:
    """Serve an empty controller on the loopback interface."""
    kept = Controller()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            status, said = kept.answer(self.command, parts.path, dict(parse_qsl(parts.query)), body)
            data = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(data)))):
                self.send_header(name, value)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = do_OPTIONS = _serve

        def log_message(self, *_words: Any) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
