//! [`Engine`]: what can run card sessions, and which of them one run of the command takes.

use anyhow::{Result, bail};

/// One engine with one choice of its settings.
#[derive(Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name on the command line and in the table: the family, and what distinguishes it within.
    pub name: &'static str,
    /// Whose it is.
    pub family: Family,
    /// The settings, for a reader.
    pub what: &'static str,
    /// What is added to the command of its family.
    pub arguments: &'static [&'static str],
    /// Whether it runs only when it is named.
    pub is_extra: bool,
}

/// Engines with the same set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The program for this one job.
    Native,
    /// This one.
    Keyfold,
    /// Apache Flink.
    Flink,
    /// Apache Spark.
    Spark,
    /// Bytewax.
    Bytewax,
}

/// All of them, in the order in which they run and are shown.
pub const ENGINES: [Engine; 13] = [
    engine("native-1", Family::Native, "the limit: one thread, in memory, nothing durable", &["1"]),
    engine("native-2", Family::Native, "the same on two threads", &["2"]),
    engine("keyfold-1", Family::Keyfold, "two partitions, one thread for them", &["--threads", "1"]),
    engine("keyfold-2", Family::Keyfold, "two partitions, two threads", &["--threads", "2"]),
    engine("flink-heap", Family::Flink, "state and timers on the heap", &["hashmap", "heap"]),
    engine("flink-rocksdb", Family::Flink, "state and timers in RocksDB", &["rocksdb", "rocksdb"]),
    extra("flink-rocksdb-heap-timers", Family::Flink, "state in RocksDB, timers on the heap", &["rocksdb", "heap"]),
    engine("spark-rocksdb", Family::Spark, "flatMapGroupsWithState, RocksDB", &["flatMapGroupsWithState", "rocksdb"]),
    extra(
        "spark-hdfs",
        Family::Spark,
        "flatMapGroupsWithState, Spark's own store",
        &["flatMapGroupsWithState", "hdfs"],
    ),
    extra("spark-transform", Family::Spark, "transformWithState, RocksDB", &["transformWithState", "rocksdb"]),
    engine("bytewax-processes", Family::Bytewax, "two processes", &["2", "1"]),
    extra("bytewax-threads", Family::Bytewax, "two threads of one process", &["1", "2"]),
    extra("bytewax-one", Family::Bytewax, "one worker", &["1", "1"]),
];

const fn engine(name: &'static str, family: Family, what: &'static str, arguments: &'static [&'static str]) -> Engine {
    Engine { name, family, what, arguments, is_extra: false }
}

const fn extra(name: &'static str, family: Family, what: &'static str, arguments: &'static [&'static str]) -> Engine {
    Engine { is_extra: true, ..engine(name, family, what, arguments) }
}

impl Family {
    /// Its name on the command line, and of its folder in `bench/peers`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Native => "native",
            Family::Keyfold => "keyfold",
            Family::Flink => "flink",
            Family::Spark => "spark",
            Family::Bytewax => "bytewax",
        }
    }
}

/// Those that are named, by their own name or by their family's, which stands for those of it that run by default. Without names,
/// all that run by default.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Engine>> {
    let is_known = |name: &String| ENGINES.iter().any(|engine| engine.name == name || engine.family.name() == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
        bail!("there is no engine {unknown}; there are {}, and their families", known.join(", "));
    }
    let is_chosen = |engine: &&Engine| {
        let by_default = names.is_empty() || names.iter().any(|name| name == engine.family.name());
        by_default && !engine.is_extra || names.iter().any(|name| name == engine.name)
    };
    Ok(ENGINES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        chosen(&only).unwrap().iter().map(|engine| engine.name).collect()
    }

    #[test]
    fn a_family_stands_for_those_of_it_that_run_by_default() {
        assert_eq!(
            names(&["keyfold", "spark-hdfs", "flink"]),
            ["keyfold-1", "keyfold-2", "flink-heap", "flink-rocksdb", "spark-hdfs"]
        );
    }

    #[test]
    fn without_names_the_extra_ones_do_not_run() {
        let names = names(&[]);
        assert!(names.contains(&"spark-rocksdb") && !names.contains(&"spark-transform"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let refused = chosen(&["flink-disk".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("flink-disk") && refused.contains("flink-rocksdb"), "{refused}");
    }
}
