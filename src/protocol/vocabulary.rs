//! What is written in texts of all kinds, and how each is recognized: files, hosts, media types, crashes. Whoever reads a
//! text decides for himself what follows from it.

/// What marks a stack, a crash or a debugger's print.
pub const MARKERS: &[&str] = &[
    "traceback",
    "stack trace",
    "stacktrace",
    "exception",
    "panic",
    "goroutine",
    "segfault",
    "segmentation fault",
    "core dumped",
    "sqlstate",
    "syntax error",
    "nullpointer",
    "null pointer",
    "cannot read propert",
    "undefined is not",
    "badmatch",
    "node_modules",
    "<anonymous>",
    "#pid",
    "enoent",
    "eacces",
    "eperm",
    "econn",
    "etimedout",
    "epipe",
    "enotfound",
    "eaddr",
    "ehost",
    "eai_",
    "errno",
    "no such file",
    "permission denied:",
    "::",
];

/// Kinds of file a path is recognized by without a slash.
pub const FILES: &[&str] = &[
    "py", "js", "mjs", "cjs", "tsx", "java", "rs", "rb", "php", "cc", "cpp", "kt", "exs", "toml", "ini",
    "conf", "cfg", "db", "sqlite", "json", "yaml", "yml", "sql", "pem", "crt", "sock", "html", "xml", "txt",
    "csv", "sh", "dll", "exe", "jar", "log",
];

/// Last labels by which a bare host name is recognized.
pub const DOMAINS: &[&str] = &[
    "com",
    "net",
    "org",
    "io",
    "dev",
    "ai",
    "app",
    "cloud",
    "co",
    "de",
    "eu",
    "uk",
    "us",
    "internal",
    "local",
    "localdomain",
    "lan",
    "corp",
    "intra",
    "example",
    "test",
    "invalid",
    "svc",
    "cluster",
];

/// Words with a slash between them that are no path and no id.
pub const SLASHED: &[&str] = &[
    "and/or",
    "n/a",
    "i/o",
    "input/output",
    "yes/no",
    "true/false",
    "on/off",
    "read/write",
    "request/response",
    "client/server",
    "http/1.0",
    "http/1.1",
    "http/2",
    "http/3",
    "tcp/ip",
];

/// First halves of media types.
pub const MEDIA: &[&str] =
    &["application", "audio", "font", "image", "message", "model", "multipart", "text", "video"];
