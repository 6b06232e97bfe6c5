//! The table of made-up runs.

use super::*;
use crate::bench::engine::ENGINES;

fn figures(events_per_s: f64) -> Figures {
    Figures {
        events_per_s,
        seconds_processing: 2e6 / events_per_s,
        seconds_total: 2e6 / events_per_s + 1.0,
        cpu_seconds_per_million: 3.25,
        peak_mb: 174.4,
        others_share: 0.012,
        load: 0.5,
        quarters: None,
        warm_events_per_s: None,
    }
}

fn series(name: &str, rates: &[f64]) -> Series {
    let engine = ENGINES.iter().find(|engine| engine.name == name).unwrap();
    Series { runs: rates.iter().map(|&rate| figures(rate)).collect(), ..Series::new(engine) }
}

fn cells(table: &Table, row: usize) -> Vec<&str> {
    table.rows[row].iter().map(String::as_str).collect()
}

#[test]
fn ratios_are_of_the_medians() {
    let flink = Series { version: Some("2.3.0".to_owned()), ..series("flink-heap", &[160e3, 200e3, 900e3]) };
    let table =
        Table::of_figures(&[series("native-1", &[1e6, 1.2e6, 1e6]), series("keyfold-2", &[500e3]), flink], false);
    assert_eq!(table.head[7..], ["native-1 is", "keyfold-2 is", "others' CPU", "load"]);
    let keyfold = ["keyfold-2", "equal", "500,000", "4.00", "5.00", "3.25", "174", "2.00x", "1.00x", "1 %", "0.5"];
    assert_eq!(cells(&table, 1), keyfold);
    let flink = ["flink-heap (2.3.0)", "equal", "200,000", "10.00", "11.00", "3.25", "174", "5.00x", "2.50x"];
    assert_eq!(cells(&table, 2)[..9], flink);
}

#[test]
fn an_engine_with_a_wrong_run_is_shown_and_compared_with_nothing() {
    let mut wrong = series("keyfold-1", &[300e3, 300e3]);
    wrong.faults.push("of 9 rows 1 rows are missing".to_owned());
    let table = Table::of_figures(&[series("native-1", &[1e6]), wrong], false);
    assert_eq!(cells(&table, 1), ["keyfold-1", "WRONG in 1 of 3", "-", "-", "-", "-", "-", "-", "-", "-"]);
    assert_eq!(table.head[7..], ["native-1 is", "others' CPU", "load"]);
}

#[test]
fn warm_batches_of_peers_have_a_line_of_their_own() {
    let mut spark = series("spark-rocksdb", &[75e3]);
    spark.runs[0].warm_events_per_s = Some(150e3);
    spark.runs[0].quarters = Some([40e3, 60e3, 140e3, 150e3]);
    let all = [series("keyfold-2", &[900e3]), spark];
    let table = Table::of_figures(&all, true);
    assert_eq!(cells(&table, 2)[..3], ["spark-rocksdb, warm batches", "", "150,000"]);
    assert_eq!(cells(&table, 2)[7], "6.00x");
    let quarters = Table::of_quarters(&all).unwrap();
    assert_eq!(cells(&quarters, 0), ["spark-rocksdb", "40,000", "60,000", "140,000", "150,000"]);
}

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let table = Table {
        head: vec!["engine".to_owned(), "s".to_owned()],
        rows: vec![vec!["a".to_owned(), "12.5".to_owned()], vec!["native-1".to_owned(), "1".to_owned()]],
    };
    let expected = "| engine   |    s |\n| -------- | ---: |\n| a        | 12.5 |\n| native-1 |    1 |\n";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn rates_are_shown_in_thousands() {
    assert_eq!([1_063_400.0, 581_499.0, 999_600.0, 400.0].map(thousands), ["1,063,000", "581,000", "1,000,000", "400"]);
}
