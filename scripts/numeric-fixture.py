#!/usr/bin/env python3
"""Random operations on numerics with PostgreSQL 15's answers, for crates/numeric/tests.

Usage: numeric-fixture.py SEED COUNT | psql -AtqX … > answers.txt
Prints SQL; each line that psql prints is: operation, its arguments, the answer, divided by tabs.
An answer that is an error is '!', the SQLSTATE, a space, the message, and maybe ' / ' and the DETAIL.
"""
import random
import sys

seed, count = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)

print(r"""
set client_min_messages = error;
create function pg_temp.answer(q text) returns text language plpgsql as $$
declare r text; s text; m text; d text;
begin
  execute 'select (' || q || ')::text' into r;
  return coalesce(r, 'NULL');
exception when others then
  get stacked diagnostics s = returned_sqlstate, m = message_text, d = pg_exception_detail;
  return '!' || s || ' ' || m || case when d <> '' then ' / ' || d else '' end;
end $$;
""")


def digits(n):
    return "".join(rng.choice("0123456789") for _ in range(n))


def number(large=True):
    kind = rng.randrange(20)
    sign = rng.choice(["", "", "-"])
    if kind < 5:
        return sign + str(rng.randrange(0, 200))
    if kind < 9:
        return sign + digits(rng.randrange(1, 9)) + "." + digits(rng.randrange(1, 9))
    if kind == 9:
        return sign + digits(rng.randrange(15, 45 if large else 20))
    if kind == 10:
        return sign + digits(rng.randrange(1, 40 if large else 9)) + "." + digits(rng.randrange(1, 40 if large else 9))
    if kind == 11:
        return sign + "0." + "0" * rng.randrange(0, 30) + digits(rng.randrange(1, 12))
    if kind == 12:
        return sign + rng.choice(["0", "0.0", "1", "1.0", "10", "100", "10000", "9999", "99999999", "0.1", "0.0001", "0.9", "1.1", "2", "0.5", "1.5"])
    if kind == 13:
        return rng.choice(["NaN", "Infinity", "-Infinity"])
    if kind == 14:
        return sign + rng.choice(["1", "9", "12345", digits(3)]) + "0" * rng.randrange(0, 40 if large else 5)
    if kind == 15:
        return rng.choice(["1.", "0.99"]) + "0" * rng.randrange(0, 20) + digits(rng.randrange(1, 6))
    if kind == 16:
        return sign + str(10 ** rng.randrange(0, 39) + rng.randrange(-1, 2))
    if kind == 17:
        return sign + str(2 ** rng.choice([15, 16, 31, 32, 63, 64, 127, 128]) + rng.randrange(-1, 2))
    if kind == 18:
        return sign + digits(rng.randrange(1, 4)) + "." + rng.choice(["5", "50", "499999", "500000", "25", "75"])
    return sign + digits(2) + "e" + str(rng.randrange(-30, 60 if large else 8))


def quote(text):
    return "'" + text.replace("'", "''") + "'"


BINARY = {"add": "{}::numeric + {}::numeric", "sub": "{}::numeric - {}::numeric", "mul": "{}::numeric * {}::numeric",
          "div": "{}::numeric / {}::numeric", "mod": "{}::numeric % {}::numeric", "div_trunc": "div({}::numeric, {}::numeric)",
          "gcd": "gcd({}::numeric, {}::numeric)", "lcm": "lcm({}::numeric, {}::numeric)",
          "log": "log({}::numeric, {}::numeric)", "power": "power({}::numeric, {}::numeric)",
          "cmp": "numeric_cmp({}::numeric, {}::numeric)"}
UNARY = {"neg": "-{}::numeric", "abs": "abs({}::numeric)", "sign": "sign({}::numeric)", "ceil": "ceil({}::numeric)",
         "floor": "floor({}::numeric)", "sqrt": "sqrt({}::numeric)", "exp": "exp({}::numeric)", "ln": "ln({}::numeric)",
         "log10": "log({}::numeric)", "scale": "scale({}::numeric)", "min_scale": "min_scale({}::numeric)",
         "trim_scale": "trim_scale({}::numeric)", "int2": "{}::numeric::int2", "int4": "{}::numeric::int4",
         "int8": "{}::numeric::int8", "float8": "{}::numeric::float8", "float4": "{}::numeric::float4",
         "parse": "{}::numeric", "send": "encode(numeric_send({}::numeric), 'hex')"}


def exponent():
    kind = rng.randrange(6)
    if kind < 3:
        return str(rng.randrange(-40, 60))
    if kind == 3:
        return rng.choice(["0.5", "-0.5", "1.5", "2.0", "3.00", "0.3333", "-1.25", "12.75", "100", "1000", "-300", "0"])
    return number(False)


def line(op, sql, args):
    shown = "\\t".join(a.replace("\\", "\\\\") for a in args)
    q = sql.format(*[quote(a) for a in args])
    print(f"select {quote(op)} || E'\\t' || E{quote(shown)} || E'\\t' || pg_temp.answer({quote(q)});")


for _ in range(count):
    kind = rng.randrange(20)
    if kind < 7:
        op = rng.choice(["add", "sub", "mul", "div", "mod", "div_trunc", "cmp", "div", "mul"])
        line(op, BINARY[op], [number(), number()])
    elif kind == 7:
        op = rng.choice(["gcd", "lcm"])
        line(op, BINARY[op], [number(), number()])
    elif kind == 8:
        line("log", BINARY["log"], [number(), number()])
    elif kind < 11:
        line("power", BINARY["power"], [number(False), exponent()])
    elif kind < 15:
        op = rng.choice(list(UNARY))
        line(op, UNARY[op], [number(op not in ("exp",))])
    elif kind == 15:
        op = rng.choice(["round", "trunc"])
        line(op, op + "({}::numeric, {}::int4)", [number(), str(rng.randrange(-12, 25))])
    elif kind == 16:
        p = rng.randrange(1, 25)
        s = rng.randrange(-5, 25)
        print(f"select {quote('typmod')} || E'\\t' || {quote(a := number())} || E'\\t{p}\\t{s}\\t' || "
              f"pg_temp.answer({quote(quote(a) + f'::numeric({p},{s})')});")
    elif kind == 17:
        if rng.randrange(3) == 0:
            n = str(rng.randrange(-2, 60))
            line("factorial", "factorial({}::int8)", [n])
        else:
            line("width_bucket", "width_bucket({}::numeric, {}::numeric, {}::numeric, {}::int4)",
                 [number(False), number(False), number(False), str(rng.choice([0, 1, 3, 5, 10, 2147483647, -1]))])
    elif kind == 18:
        if rng.randrange(2):
            ty = rng.choice(["float8", "float4"])
            v = rng.choice([repr(rng.uniform(-1000, 1000)), repr(rng.uniform(-1, 1) * 10 ** rng.randrange(-30, 30)),
                            rng.choice(["0", "-0", "1e15", "123456789012345678", "0.1", "1e-5", "0.0001", "999999.5", "1234567.5", "NaN", "Infinity"])])
            line("from_" + ty, "{}::" + ty + "::numeric", [v])
        else:
            text = rng.choice([number(), "  " + number(), number() + " ", "+" + number(), number() + "x", ".5", "5.", ".", "", "e5",
                               "1e", "1e+", "1e+5", "1e 5", "1e5.5", "1.2.3", "infinit", "+inf", "-INF ", "nan ", "--1", "0x10", "1_000",
                               "0e-20000", "1e-17000", "0e200000", "1e131071", "1e131072", "1e2147483647", "1e-2147483647", "1e99999999999999999999"])
            line("parse", UNARY["parse"], [text]) if len(text) < 200 and "1e131071" != text else None
    else:
        values = [number(rng.randrange(3) == 0) for _ in range(rng.randrange(1, 7))]
        if rng.randrange(4):
            values = [v for v in values if v not in ("NaN", "Infinity", "-Infinity")] or ["1"]
        fn = rng.choice(["sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"])
        listed = "{" + ",".join(values) + "}"
        line(fn, "select " + fn + "(x) from unnest({}::numeric[]) x", [listed])
