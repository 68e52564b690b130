//! The console: the real program, seen as a browser sees it. `pages` requests every page with plain HTTP; `browser`
//! drives headless Chromium, if it is installed.

mod browser;
mod forms;
mod links;
mod outcomes;
mod pages;
mod report;
mod self_test;
mod usage;
