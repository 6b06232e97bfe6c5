//! Sinks that fail, hang and refuse: nothing is lost, nothing comes out of order, nothing grows without end.

mod outage;
mod refused;
mod trial;
mod webhook;
