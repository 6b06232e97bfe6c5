//! Streams: what was answered stays, once, in its order, whatever happens to the process and the disk.

mod appending;
mod crashes;
mod damage;
mod disk;
mod keying;
mod known_again;
mod made_up;
mod reading;
mod retention;
mod rules;
mod scene;
mod speed;
mod torn;
