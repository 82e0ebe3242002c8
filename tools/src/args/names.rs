//! Words that flags take, and what they stand for.

use clap::ValueEnum;
use triune::{Components, Durability, Metric, Rerank, Scorer};

/// What walks compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantisationName {
    None,
    Sq7,
}

/// How components are stored.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ComponentsName {
    F32,
    F16,
}

impl From<ComponentsName> for Components {
    fn from(name: ComponentsName) -> Components {
        match name {
            ComponentsName::F32 => Components::F32,
            ComponentsName::F16 => Components::F16,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MetricName {
    Cosine,
    Dot,
    L2,
}

impl From<MetricName> for Metric {
    fn from(name: MetricName) -> Metric {
        match name {
            MetricName::Cosine => Metric::Cosine,
            MetricName::Dot => Metric::Dot,
            MetricName::L2 => Metric::L2,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScorerName {
    Okapi,
    Lucene,
}

impl From<ScorerName> for Scorer {
    fn from(name: ScorerName) -> Scorer {
        match name {
            ScorerName::Okapi => Scorer::Okapi,
            ScorerName::Lucene => Scorer::Lucene,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtractorName {
    None,
    Compat,
    #[value(hide = true)]
    Rules,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    Vector,
    Text,
    Hybrid,
    Graph,
    Ppr,
    Docsgpt,
}

impl ModeName {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ModeName::Vector => "vector",
            ModeName::Text => "text",
            ModeName::Hybrid => "hybrid",
            ModeName::Graph => "graph",
            ModeName::Ppr => "ppr",
            ModeName::Docsgpt => "docsgpt",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Leg {
    Vector,
    Text,
    Graph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RerankName {
    Dense,
    Text,
}

impl From<RerankName> for Rerank {
    fn from(name: RerankName) -> Rerank {
        match name {
            RerankName::Dense => Rerank::Dense,
            RerankName::Text => Rerank::Text,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DurabilityName {
    Sync,
    Buffered,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Durability {
        match name {
            DurabilityName::Sync => Durability::Sync,
            DurabilityName::Buffered => Durability::Buffered,
        }
    }
}
