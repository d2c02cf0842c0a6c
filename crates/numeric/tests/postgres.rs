//! PostgreSQL 15's answers to random operations (`scripts/numeric-fixture.py`), digit for digit.
//!
//! `NUMERIC_ANSWERS` names another file to compare with.

use resurgam_numeric::aggregate::Moments;
use resurgam_numeric::{Error, Numeric, Result, Typmod};

fn read(text: &str) -> Result<Numeric> {
    Numeric::parse(text, None)
}

fn shown(value: Numeric) -> String {
    value.to_string()
}

fn or_null<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn float(value: f64, shortest: String) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => shortest,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `{a,b}`.
fn aggregate(op: &str, list: &str) -> Result<String> {
    let values = list.trim_matches(['{', '}']).split(',').map(read).collect::<Result<Vec<_>>>()?;
    let mut whole = Moments::new(true, true);
    for value in &values {
        // What comes and goes leaves no trace.
        let passing = read("-12.3456789")?;
        whole.add(&passing);
        whole.add(value);
        whole.remove(&passing);
    }
    let mut halves = [Moments::new(true, false), Moments::new(true, false)];
    for (at, value) in values.iter().enumerate() {
        halves[at % 2].add(value);
    }
    let mut merged = Moments::from_bytes(&halves[0].to_bytes())?;
    merged.merge(&Moments::from_bytes(&halves[1].to_bytes())?);
    let answer = |state: &Moments| {
        Ok::<_, Error>(or_null(match op {
            "sum" => state.sum()?,
            "avg" => state.avg()?,
            "var_pop" => state.variance(false, false)?,
            "var_samp" => state.variance(true, false)?,
            "stddev_pop" => state.variance(false, true)?,
            _ => state.variance(true, true)?,
        }))
    };
    let (whole, merged) = (answer(&whole)?, answer(&merged)?);
    assert_eq!(whole, merged, "{op} {list}");
    Ok(whole)
}

fn answer(op: &str, args: &[&str]) -> Result<String> {
    if matches!(op, "sum" | "avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp") {
        return aggregate(op, args[0]);
    }
    match op {
        "from_float8" => return Ok(shown(Numeric::from_f64(args[0].parse().unwrap()))),
        "from_float4" => return Ok(shown(Numeric::from_f32(args[0].parse().unwrap()))),
        "factorial" => return Numeric::factorial(args[0].parse().unwrap()).map(shown),
        "typmod" => {
            let typmod = Typmod::new(args[1].parse().unwrap(), args[2].parse().unwrap())?;
            assert_eq!(Typmod::from_pg(typmod.to_pg()), Some(typmod));
            return Numeric::parse(args[0], Some(typmod)).map(shown);
        }
        _ => {}
    }
    let a = read(args[0])?;
    assert_eq!(Numeric::decode(&a.encoded()).map(shown), Ok(a.to_string()), "encoding of {a}");
    let b = || read(args[1]);
    Ok(match op {
        "parse" => shown(a),
        "neg" => shown(a.neg()),
        "abs" => shown(a.abs()),
        "sign" => shown(a.sign()),
        "ceil" => shown(a.ceil()?),
        "floor" => shown(a.floor()?),
        "sqrt" => shown(a.sqrt()?),
        "exp" => shown(a.exp()?),
        "ln" => shown(a.ln()?),
        "log10" => shown(a.log10()?),
        "scale" => or_null(a.scale()),
        "min_scale" => or_null(a.min_scale()),
        "trim_scale" => shown(a.trim_scale()),
        "int2" => a.to_i16()?.to_string(),
        "int4" => a.to_i32()?.to_string(),
        "int8" => a.to_i64()?.to_string(),
        "float8" => float(a.to_f64()?, a.to_f64()?.to_string()),
        "float4" => float(a.to_f32()?.into(), a.to_f32()?.to_string()),
        "send" => {
            let mut bytes = Vec::new();
            a.write_wire(&mut bytes);
            assert_eq!(Numeric::from_wire(&bytes, None).map(shown), Ok(a.to_string()));
            hex(&bytes)
        }
        "round" => shown(a.round(args[1].parse().unwrap())?),
        "trunc" => shown(a.trunc(args[1].parse().unwrap())?),
        "width_bucket" => a.width_bucket(&b()?, &read(args[2])?, args[3].parse().unwrap())?.to_string(),
        "add" => shown(a.add(&b()?)?),
        "sub" => shown(a.sub(&b()?)?),
        "mul" => shown(a.mul(&b()?)?),
        "div" => shown(a.div(&b()?)?),
        "mod" => shown(a.rem(&b()?)?),
        "div_trunc" => shown(a.div_trunc(&b()?)?),
        "gcd" => shown(a.gcd(&b()?)?),
        "lcm" => shown(a.lcm(&b()?)?),
        "log" => shown(b()?.log(&a)?),
        "power" => shown(a.power(&b()?)?),
        "cmp" => {
            let b = b()?;
            let (mut left, mut right) = (Vec::new(), Vec::new());
            a.write_key(&mut left);
            b.write_key(&mut right);
            assert_eq!(left.cmp(&right), a.cmp(&b), "keys of {a} and {b}");
            assert_eq!(resurgam_numeric::key::key_len(&[&left[..], b"\xff\x01"].concat()), Ok(left.len()));
            (a.cmp(&b) as i32).to_string()
        }
        other => panic!("{other}"),
    })
}

/// Floats are compared as numbers: they are printed elsewhere.
fn same(op: &str, ours: &str, theirs: &str) -> bool {
    let one = |text: &str| match op {
        "float8" => text.parse::<f64>().ok().map(|value| value.to_bits()),
        "float4" => text.parse::<f32>().ok().map(|value| value.to_bits().into()),
        _ => None,
    };
    ours == theirs || (one(ours).is_some() && one(ours) == one(theirs))
}

#[test]
fn answers_are_postgresqls() {
    let path = std::env::var("NUMERIC_ANSWERS").unwrap_or_else(|_| "tests/fixtures/postgres.txt".to_owned());
    let answers = std::fs::read_to_string(path).unwrap();
    let (mut lines, mut wrong) = (0, Vec::new());
    for line in answers.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [op, args @ .., theirs] = fields.as_slice() else { panic!("{line}") };
        lines += 1;
        let ours = answer(op, args).unwrap_or_else(|error| {
            let detail = error.detail.map_or_else(String::new, |detail| format!(" / {detail}"));
            format!("!{} {}{detail}", error.code, error.message)
        });
        if !same(op, &ours, theirs) {
            wrong.push(format!("{op} {args:?}: {ours} instead of {theirs}"));
        }
    }
    assert!(lines > 1000, "{lines} lines");
    assert!(wrong.is_empty(), "{} of {lines} differ:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

/// To make a number of so many digits takes the square of their count.
#[test]
fn texts_of_too_many_digits_are_refused_at_once() {
    let begun = std::time::Instant::now();
    let ones = "1".repeat(5_000_000);
    assert_eq!(read(&ones).unwrap_err().code, "22003");
    assert_eq!(read(&format!("{ones}x")).unwrap_err().code, "22P02");
    assert_eq!(read(&format!("{ones}.5e-4999990")).unwrap_err().code, "22003");
    assert_eq!(read(&format!("0.{ones}")).unwrap_err().code, "22003");
    let two_places = Typmod::new(10, 2).expect("a modifier");
    let rounded = |text: &str| Numeric::parse(text, Some(two_places)).map(shown);
    assert_eq!(rounded(&format!("1.{ones}")).expect("a number"), "1.11");
    assert_eq!(rounded(&format!("1.005{ones}")).expect("a number"), "1.01");
    assert_eq!(rounded(&format!("1.00{}", "4".repeat(5_000_000))).expect("a number"), "1.00");
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}
