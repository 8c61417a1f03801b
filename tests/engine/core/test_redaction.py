"""What looks like a credential is not kept, however a program prints it; what does not is left as it is."""

from __future__ import annotations

import time

import pytest

from engine.core.redaction import REDACTED, redact_text, redacted_parts


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("login password=hunter2 ok", f"login password={REDACTED} ok"),
        ("DB_PASSWORD=hunter2", f"DB_PASSWORD={REDACTED}"),
        ("client_secret=abc&grant=x", f"client_secret={REDACTED}&grant=x"),
        ('{"password": "hunter2", "n": 1}', f'{{"password": "{REDACTED}", "n": 1}}'),
        ("{'apiKey': 'one two'}", f"{{'apiKey': '{REDACTED}'}}"),
        ("key AKIAIOSFODNN7EXAMPLE.", f"key AKIA{REDACTED}."),
        (f"token={REDACTED}", f"token={REDACTED}"),
        ("password: hunter2", f"password: {REDACTED}"),
        ("db:\n  db_password: hunter2\n  host: h", f"db:\n  db_password: {REDACTED}\n  host: h"),
        ("connect(host=1, password='hunter 2')", f"connect(host=1, password='{REDACTED}')"),
        ('export DB_PASSWORD="hunter2"', f'export DB_PASSWORD="{REDACTED}"'),
        ("secret = 'hunter2'", f"secret = '{REDACTED}'"),
        ("SIGNING_KEY=hunter2", f"SIGNING_KEY={REDACTED}"),
        ("DB_PASS=hunter2", f"DB_PASS={REDACTED}"),
        ("Cookie: sid=hunter2; theme=dark", f"Cookie: {REDACTED}"),
        ("< set-cookie: sid=hunter2\r\n< x: y", f"< set-cookie: {REDACTED}\r\n< x: y"),
        ("X-Api-Key: hunter2", f"X-Api-Key: {REDACTED}"),
        ("Authorization: Digest hunter2", f"Authorization: {REDACTED}"),
        ('"{\\"password\\": \\"hunter2\\"}"', f'"{{\\"password\\": \\"{REDACTED}\\"}}"'),
        ("run --db-password hunter2 --fast", f"run --db-password {REDACTED} --fast"),
        ('{"password": "p\\u00e4ss\\u0026w", "n": 1}', f'{{"password": "{REDACTED}", "n": 1}}'),
        ('{"password": "a\\"b", "n": 1}', f'{{"password": "{REDACTED}", "n": 1}}'),
        ('"{\\"token\\":\\"a\\u0026b\\",\\"n\\":1}"', f'"{{\\"token\\":\\"{REDACTED}\\",\\"n\\":1}}"'),
        ('password: "hunter 2"', f'password: "{REDACTED}"'),
        ("password: 12-abc$def", f"password: {REDACTED}"),
        ('Authorization: Digest username="u", response="hunter2"', f"Authorization: {REDACTED}"),
        ("pwd=hunter2", f"pwd={REDACTED}"),
        ("DB_PWD=/hunter2", f"DB_PWD={REDACTED}"),
        ("backup --password 'hunter2' --fast", f"backup --password '{REDACTED}' --fast"),
        ('backup --db-password "hunter \\" 2" now', f'backup --db-password "{REDACTED}" now'),
        ("run --token 'abc def'", f"run --token '{REDACTED}'"),
        ("run --token $'abc def'", f"run --token $'{REDACTED}'"),
        ('run --token "it\'s one" x', f'run --token "{REDACTED}" x'),
        ("sh -c 'mysql --password \"x\"'", f"sh -c 'mysql --password \"{REDACTED}\"'"),
        ('"mysql --password \\"it\'s one\\" x"', f'"mysql --password \\"{REDACTED}\\" x"'),
        ("['mysql', '--password', 'hunter2', 'db']", f"['mysql', '--password', '{REDACTED}', 'db']"),
        ('"[\\"--password\\", \\"hunter2\\", 1]"', f'"[\\"--password\\", \\"{REDACTED}\\", 1]"'),
        ('{"Authorization": "Token 0123456789abcdef"}', f'{{"Authorization": "{REDACTED}"}}'),
        ("{'proxy-authorization': 'Token 0123'}", f"{{'proxy-authorization': '{REDACTED}'}}"),
        ('"{\\"Authorization\\": \\"Token 0123\\"}"', f'"{{\\"Authorization\\": \\"{REDACTED}\\"}}"'),
        ('Authorization: "Token 0123"', f'Authorization: "{REDACTED}"'),
        ('{"Authorization": "Bearer 0123456789"}', f'{{"Authorization": "Bearer {REDACTED}"}}'),
        ('{"Authorization": "Token ' + "0" * 3_000 + '"}', f'{{"Authorization": "{REDACTED}"}}'),
        ('{"Cookie": "sid=hunter2; theme=dark"}', f'{{"Cookie": "{REDACTED}"}}'),
        ('{"password": "it\'s hunter2", "n": 1}', f'{{"password": "{REDACTED}", "n": 1}}'),
        ('"{\\"password\\": \\"a\\\\\\"b\'c\\"}"', f'"{{\\"password\\": \\"{REDACTED}\\"}}"'),
    ],
)
def test_a_credential_is_not_kept(printed: str, kept: str) -> None:
    assert redact_text(printed) == kept


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("login refused: otp=483920 for ada", f"login refused: otp={REDACTED} for ada"),
        ("otp=ABCDEF", f"otp={REDACTED}"),
        ("otp: 483920", f"otp: {REDACTED}"),
        ('{"otp": "483920", "n": 1}', f'{{"otp": "{REDACTED}", "n": 1}}'),
        ("{'user_otp': 483920}", f"{{'user_otp': {REDACTED}}}"),
        ('"{\\"otp\\": \\"483920\\"}"', f'"{{\\"otp\\": \\"{REDACTED}\\"}}"'),
        ("totp_code='123456'", f"totp_code='{REDACTED}'"),
        ("mfa_code=998877 ok", f"mfa_code={REDACTED} ok"),
        ("Your one-time code is 483 920.", f"Your one-time code is {REDACTED}."),
        ("verification code: 123456", f"verification code: {REDACTED}"),
        ("OTP 483920", f"OTP {REDACTED}"),
        (f"otp={REDACTED}", f"otp={REDACTED}"),
    ],
)
def test_a_code_that_is_good_once_is_not_kept(printed: str, kept: str) -> None:
    assert redact_text(printed) == kept


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=100",
        "the password: at least 12 letters",
        "key=1",
        '{"token": 7}',
        "PWD=/srv/x\nOLDPWD=/srv",
        "token: 12",
        "tokens: 1, 2 and 3",
        "--max-tokens 512",
        "--tokenizer bert-base",
        "total_tokens: 4096",
        "token: expired",
        "Password: incorrect",
        "no cookie: the browser sent none",
        "authorization: not needed here",
        "run --token --fast",
        "['run', '--token', '--fast']",
        "run --password '' --fast",
        '{"authorization_endpoint": "https://id.example/auth"}',
        '{"cookies": "none"}',
        "otp: expired",
        "otp=required",
        "otp=3",
        "the otp is wrong",
        "laptop=asus1234",
        "robotp=12345",
        "stop: 12345 rows",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nothing to see", []),
        ("login password=hunter2 ok", ["hunter2"]),
        ("postgres://u:hunter2@h/db", ["hunter2"]),
        ("run --db-password hunter2", ["hunter2"]),
        ("sh -c 'mysql --password \"two words\"' --token 'x'", ["two words", "x"]),
        ("a_token=hunter2 and Bearer hunter-two-3", ["hunter2", "hunter-two-3"]),
    ],
)
def test_what_is_taken_out_is_told_in_order(text: str, parts: list[str]) -> None:
    assert redacted_parts(text) == parts


@pytest.mark.parametrize(
    "part",
    [
        "--password '", '--password "', "--password \\'", "--password", "--password ", "--a-password-", "'--token', '",
        "--token '\\", '\\"--token\\", \\"', '"authorization": "', "authorization", "authorization: '", 'cookie": "',
        '\\"cookie\\": \\"', 'password": "\\\\\\', "token" + " " * 20, "\\", "'", "--",
        "otp: ", "a_otp_code=", "a" * 20 + "_", "one-time code is ", "one-time code  : ", "otp" + "-" * 20 + ":",
    ],
)  # fmt: skip
def test_no_text_makes_it_take_long(part: str) -> None:
    text = "--token '" + part * (32_000 // len(part))
    began = time.process_time()
    redact_text(text)
    assert time.process_time() - began < 2
