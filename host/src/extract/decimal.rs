//! Numbers as JSON writes them, exact: a key or a time in milliseconds must not change by being rounded.

/// A decimal number, as its digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    exponent: i64,
}

/// The most digits that an integer written with a fraction or an exponent is given as a key.
const KEY_DIGITS_MAX: i64 = 40;

impl<'t> Decimal<'t> {
    /// Reads a JSON number. None for anything else.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            // An exponent that does not fit is as good as infinite.
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_form =
            !whole.is_empty() && is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0'));
        has_form.then_some(Decimal { is_negative: unsigned.len() < text.len(), whole, fraction, exponent })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + use<'t> {
        self.whole.bytes().chain(self.fraction.bytes()).map(|byte| byte - b'0')
    }

    /// The number times ten to the power of `shift`, rounded down. None when that does not fit into 64 bits.
    pub(super) fn floor(&self, shift: i64) -> Option<i64> {
        let point = (self.whole.len() as i64).saturating_add(self.exponent).saturating_add(shift);
        let (mut value, mut has_fraction, mut count) = (0i64, false, 0);
        for digit in self.digits() {
            if count < point {
                value = value.checked_mul(10)?.checked_add(i64::from(digit))?;
                count += 1;
            } else {
                has_fraction |= digit > 0;
            }
        }
        while count < point && value != 0 {
            value = value.checked_mul(10)?;
            count += 1;
        }
        Some(if self.is_negative { -value - i64::from(has_fraction) } else { value })
    }

    /// Appends the one form that equal numbers have as a key: integers as digits, so that 42, 42.0 and 4.2e1 are `42`, and
    /// others in the shortest form that reads as the same 64-bit float. False when the number does not fit into one.
    pub(super) fn append_key(&self, text: &str, out: &mut Vec<u8>) -> bool {
        if self.fraction.is_empty() && self.exponent == 0 {
            let is_minus_zero = self.is_negative && self.whole == "0";
            out.extend_from_slice(if is_minus_zero { b"0" } else { text.as_bytes() });
            return true;
        }
        let point = (self.whole.len() as i64).saturating_add(self.exponent);
        let last = self.digits().enumerate().filter(|(_, digit)| *digit > 0).last();
        let Some((last, _)) = last else {
            out.push(b'0');
            return true;
        };
        if (last as i64) < point && point <= KEY_DIGITS_MAX {
            out.extend(self.is_negative.then_some(b'-'));
            let digits = self.digits().chain(std::iter::repeat(0)).take(point as usize);
            out.extend(digits.skip_while(|digit| *digit == 0).map(|digit| digit + b'0'));
            return true;
        }
        match text.parse::<f64>() {
            // A fraction too small to tell leaves an integer.
            Ok(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
                out.extend((float as i64).to_string().into_bytes())
            }
            Ok(float) if float.is_finite() => {
                serde_json::to_writer(out, &float).expect("writing a finite number to memory cannot fail");
            }
            _ => return false,
        }
        true
    }
}

fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Far beyond every limit and far from overflowing in the sums above.
    const HUGE: i64 = i64::MAX / 4;
    let size = digits.parse().unwrap_or(HUGE).min(HUGE);
    Some(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<String> {
        let mut out = Vec::new();
        let fits = Decimal::parse(text).unwrap().append_key(text, &mut out);
        fits.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn equal_numbers_are_one_key() {
        for (texts, expected) in [
            (&["42", "42.0", "4.2e1", "420e-1", "0.42E+2", "42.000"][..], "42"),
            (&["0", "-0", "0.0", "-0.0", "0e9", "1e-400", "0e99999999999999999999"], "0"),
            (&["-7", "-7.0", "-70e-1"], "-7"),
            (&["0.1", "0.10", "1e-1", "1E-01"], "0.1"),
            (&["100000000000000000000", "1e20", "100000000000000000000.0"], "100000000000000000000"),
            (&["1.5e300", "15e299"], "1.5e+300"),
            (&["0.99999999999999999999999", "1"], "1"),
        ] {
            for text in texts {
                assert_eq!(key(text).as_deref(), Some(expected), "{text}");
            }
        }
    }

    #[test]
    fn large_integers_are_not_rounded() {
        for text in ["9007199254740993", "123456789012345678901234567890", "-9007199254740993"] {
            assert_eq!(key(text).as_deref(), Some(text));
            assert_eq!(key(&format!("{text}.0")).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_fits_no_float_is_no_key() {
        assert_eq!(key("1e400"), None);
        assert_eq!(key("-1e99999999999999999999"), None);
    }

    #[test]
    fn rounding_down_is_exact() {
        for (text, shift, expected) in [
            ("1700000000.123", 3, Some(1_700_000_000_123)),
            ("1.7e9", 3, Some(1_700_000_000_000)),
            ("1.9999", 0, Some(1)),
            ("-1.0001", 0, Some(-2)),
            ("-1.0", 0, Some(-1)),
            ("-0.0001", 3, Some(-1)),
            ("0e99999999999999999999", 3, Some(0)),
            ("1e-99999999999999999999", 3, Some(0)),
            ("9223372036854775807", 0, Some(i64::MAX)),
            ("9223372036854775808", 0, None),
            ("1e19", 0, None),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().floor(shift), expected, "{text}");
        }
    }

    #[test]
    fn only_json_numbers_are_numbers() {
        for text in ["", "-", "+1", "01", ".5", "5.", "1e", "1e+", "0x1", " 1", "1 ", "1_000", "NaN", "1.2.3", "--1"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }
}
