"""What nobody should be able to do by a form, as values that are typed into its fields."""

from __future__ import annotations

from typing import Any

ATTACKS: dict[str, list[Any]] = {
    "path traversal": [
        *("../stars", "../../etc/passwd", "/etc/passwd", "a/../../catalogs/stars/x.csv", "..\\..\\x", "."),
        *("%2e%2e%2fx", "file:///etc/passwd", "file://../x", "a\0b", "~/.ssh/id_rsa", "x/..", "link/x.csv"),
    ],
    "template injection": [
        *(
            "{{ 7*7 }}",
            "{% raw %}",
            "{{ var.value.secret }}",
            "{{ ti.xcom_push('a', 'b') }}",
            "${HOME}",
            "${SECRET}",
        ),
        *("#{1}", "%s%n", "{0.__class__}", "{{ night }}"),
    ],
    "argument injection": [
        *(
            "--conf",
            "-rf",
            "--conf spark.jars=x",
            "; rm -rf /",
            "$(id)",
            "`id`",
            "| id",
            "x\n--master evil",
            "stars\n",
        ),
        *("' or 1=1 --", '"; drop table dag; --', "__import__('os').system('id')"),
    ],
    "hostile names": [
        "",
        " ",
        "a" * 5000,
        "a" * 200_000,
        "\x1b[31m",
        "é\u202ee",
        "\ud800",
        "名前",
        "\r\n",
        "(" * 3000,
    ],
    "markup": ["<script>alert(1)</script>", "javascript:alert(1)", '"><img src=x onerror=alert(1)>'],
    "addresses": [
        *(
            "http://169.254.169.254/latest/meta-data",
            "ftp://host/x",
            "gopher://host/x",
            "zip://x::http://host/x",
        ),
        *(
            "https://me:secret@host/x.csv",
            "s3://key:secret@bucket/x.csv",
            "s3://b/x.csv?token=secret",
            "x://",
        ),
    ],
    "hostile values": [
        float("nan"),
        float("inf"),
        -1,
        10**30,
        True,
        {},
        {"a": 1},
        [[]],
        [None],
        [1, "a"],
        "1",
        None,
    ],
}
