"""A cone search by pyvo, in an interpreter of its own: prints identifiers and positions as JSON."""

from __future__ import annotations

import json
import sys

import pyvo
import requests

ADDRESS, COOKIE, RA, DEC, RADIUS = sys.argv[1:]
session = requests.Session()
session.headers["Cookie"] = COOKIE
service = pyvo.dal.SCSService(ADDRESS, session=session)
told = {}
try:
    found = service.search(pos=(float(RA), float(DEC)), radius=float(RADIUS), verbosity=3)
    told = {
        "ids": [str(row.id) for row in found],
        "ra": [row.pos.ra.deg for row in found],
        "dec": [row.pos.dec.deg for row in found],
        "fields": list(found.fieldnames),
    }
except pyvo.DALQueryError as error:
    told = {"error": str(error)}
print(json.dumps(told))
