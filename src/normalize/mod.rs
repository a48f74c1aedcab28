//! The rules, as a pure function of bytes: *(interface, call, host's answer) -> client's answer*.
//!
//! Nothing here knows a socket, a clock, Pingora or Prometheus. [`Exchange`] is fed the request's
//! bytes, the host's head, its pieces and its end, and says through [`Exchange::poll`] what the
//! client gets; [`Outcome`] says what was done, for those who count.

mod asking;
mod call;
mod card_rewrite;
mod decode;
mod disclose;
mod encode;
mod exchange;
mod extended_card;
mod fault;
mod held;
mod interface;
mod machine;
mod outcome;
mod output;
mod policy;
mod review;
mod stream;
mod version;
mod watch;
mod weigh;

#[cfg(test)]
pub(crate) use call::Call;
pub use card_rewrite::{CardFate, CardRewrite};
#[cfg(test)]
pub(crate) use disclose::Gate;
pub(crate) use disclose::tells_no_task;
pub use exchange::{Exchange, RequestFacts};
pub use extended_card::ExtendedCard;
pub use held::JUDGED_WHOLE;
pub use interface::{Binding, Interface, Target};
pub use machine::Machine;
pub use outcome::{DroppedKind, Outcome, Rule, RuleSet, Verdict};
pub use output::{Failure, Output, OwnAnswer, ResponseHead};
pub use policy::{CapPolicy, Disclosure, Messages, Mode, Oracle, Policy};
pub use review::{Asked, Change, Odd, Review, review};
