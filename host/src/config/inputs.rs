//! The inputs of a rule: one, or several with names.

use super::{OneOrMany, Settings, duration};
use crate::extract::{Extractor, TimeFormat};
use crate::watermark::InputWatermark;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the input of a rule with one input is called.
const ONLY: &str = "input";

/// One of several inputs, as a user writes it. What is absent is taken from the settings of the rule.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct InputTable {
    /// Files, globs, folders, or `-` for standard input.
    pub path: Option<OneOrMany>,
    /// JSON Pointers to the parts of the key.
    pub key: Option<OneOrMany>,
    /// JSON Pointer to the event time.
    pub event_time: Option<String>,
    /// How event times are written.
    pub event_time_format: Option<String>,
    /// How far the watermark stays behind.
    pub watermark_delay: Option<String>,
    /// After how long without events the input no longer holds the watermark back.
    pub idle_after: Option<String>,
}

/// One checked input.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Files, globs, folders, or `-` for standard input.
    pub paths: Vec<String>,
    /// JSON Pointers to the parts of the key.
    pub key: Vec<String>,
    /// JSON Pointer to the event time, and how it is written.
    pub event_time: Option<(String, TimeFormat)>,
    /// How it moves the watermark.
    pub watermark: InputWatermark,
}

impl Settings {
    /// Checks the inputs and gives each what the rule says for all of them.
    pub(super) fn check_inputs(&self) -> Result<Vec<Input>> {
        let mut tables = match &self.inputs {
            None => {
                BTreeMap::from([(ONLY.to_owned(), InputTable { path: self.input.clone(), ..InputTable::default() })])
            }
            Some(tables) => tables.clone(),
        };
        if let (Some(_), Some(input)) = (&self.inputs, &self.input) {
            replace_paths(&mut tables, input.clone().into_vec())?;
        }
        let is_named = self.inputs.is_some();
        let inputs: Vec<Input> = tables
            .into_iter()
            .map(|(name, table)| {
                let checked = self.check_input(name.clone(), table);
                if is_named { checked.with_context(|| format!("input {name}")) } else { checked }
            })
            .collect::<Result<_>>()?;
        ensure!(!inputs.is_empty(), "the list of inputs is empty");
        let timeless = inputs.iter().find(|input| input.event_time.is_none());
        if let (Some(without), Some(with)) = (timeless, inputs.iter().find(|input| input.event_time.is_some())) {
            bail!("input {} has an event time and input {} has none: name its field, too", with.name, without.name);
        }
        let from_stdin = inputs.iter().flat_map(|input| &input.paths).filter(|path| *path == "-").count();
        ensure!(from_stdin <= 1, "standard input (-) can be read by one input only");
        Ok(inputs)
    }

    fn check_input(&self, name: String, table: InputTable) -> Result<Input> {
        ensure!(
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
            "the name is not made of letters, digits, - and _"
        );
        let key = table
            .key
            .or_else(|| self.key.clone())
            .map(OneOrMany::into_vec)
            .context("the key is not set: name the field that events are grouped by, such as --key /user_id")?;
        let format = match table.event_time_format.as_ref().or(self.event_time_format.as_ref()) {
            None => TimeFormat::EpochMs,
            Some(name) => time_format(name)?,
        };
        let event_time = table.event_time.or_else(|| self.event_time.clone()).map(|pointer| (pointer, format));
        Extractor::new(key.clone(), event_time.clone())?;
        let delay = table.watermark_delay.or_else(|| self.watermark_delay.clone());
        let delay = delay.map(|text| duration("watermark-delay", &text)).transpose()?;
        let idle_after = table.idle_after.map(|text| duration("idle-after", &text)).transpose()?;
        ensure!(
            event_time.is_some() || (delay.is_none() && idle_after.is_none()),
            "a watermark delay or idle time needs an event time: name its field with --event-time"
        );
        Ok(Input {
            name,
            paths: table.path.map(OneOrMany::into_vec).unwrap_or_default(),
            key,
            event_time,
            watermark: InputWatermark { delay: delay.unwrap_or_default(), idle_after },
        })
    }
}

/// `NAME=PATH` for inputs that have names: the rule file says what they are, and the command line where they are.
fn replace_paths(tables: &mut BTreeMap<String, InputTable>, given: Vec<String>) -> Result<()> {
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in given {
        let named = text.split_once('=').filter(|(name, _)| tables.contains_key(*name));
        let Some((name, path)) = named else {
            let names: Vec<&str> = tables.keys().map(String::as_str).collect();
            bail!("the rule has the inputs {}: say which one {text} is, such as {}={text}", names.join(", "), names[0]);
        };
        paths.entry(name.to_owned()).or_default().push(path.to_owned());
    }
    for (name, paths) in paths {
        if let Some(table) = tables.get_mut(&name) {
            table.path = Some(OneOrMany::Many(paths));
        }
    }
    Ok(())
}

fn time_format(name: &str) -> Result<TimeFormat> {
    let formats = [TimeFormat::EpochMs, TimeFormat::EpochS, TimeFormat::Rfc3339];
    match formats.into_iter().find(|format| format.name() == name) {
        Some(format) => Ok(format),
        None => bail!("event-time-format is '{name}': epoch-ms, epoch-s and rfc3339 are possible"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Vec<Input>> {
        let settings = Settings::parse(text).expect("it parses");
        Ok(settings.check()?.inputs)
    }

    #[test]
    fn several_inputs_take_what_they_leave_out_from_the_rule() {
        let inputs = check(
            "component = 'x'\nkey = '/user'\nevent-time = '/at'\nwatermark-delay = '10s'\n\
             [inputs.payments]\npath = 'p'\n\
             [inputs.logins]\npath = ['l', 'm']\nkey = '/account'\nwatermark-delay = '1m'\nidle-after = '5m'\n",
        );
        let inputs = inputs.expect("it is right");
        let [logins, payments] = inputs.as_slice() else { panic!("{inputs:?}") };
        assert_eq!((logins.name.as_str(), logins.key[0].as_str(), logins.paths.len()), ("logins", "/account", 2));
        assert_eq!(logins.watermark.delay.as_secs(), 60);
        assert_eq!(logins.watermark.idle_after.map(|after| after.as_secs()), Some(300));
        assert_eq!((payments.key[0].as_str(), payments.watermark.delay.as_secs()), ("/user", 10));
    }

    #[test]
    fn the_command_line_says_where_named_inputs_are() {
        let rule = "component = 'x'\nkey = '/user'\n[inputs.payments]\npath = 'p'\n[inputs.logins]\n";
        let given = |input: &str| Settings::parse(&format!("input = '{input}'\n{rule}")).expect("it parses").check();
        let inputs = given("logins=here").expect("it is right").inputs;
        assert_eq!((inputs[0].paths[0].as_str(), inputs[1].paths[0].as_str()), ("here", "p"));
        let error = format!("{:#}", given("here").expect_err("it has no name"));
        assert!(error.contains("logins, payments") && error.contains("logins=here"), "{error}");
    }

    #[test]
    fn inputs_that_do_not_fit_together_are_refused() {
        for (inputs, part) in [
            ("[inputs.a]\nevent-time = '/t'\n[inputs.b]", "input b has none"),
            ("[inputs.a]\npath = '-'\n[inputs.b]\npath = '-'", "standard input"),
            ("[inputs.'a b']", "letters"),
            ("[inputs.a]\nidle-after = '1m'", "--event-time"),
        ] {
            let error = check(&format!("component = 'x'\nkey = '/k'\n{inputs}\n")).expect_err(inputs);
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
}
