"""The parts of `benches/run`: what runs (`processes`, `stage`, `contenders`), what is measured (`speed`,
`memory`, `streams`, `growth`, `instructions`) and how it is said (`report`)."""
