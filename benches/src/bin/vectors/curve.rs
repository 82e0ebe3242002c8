//! Recall against queries a second, several sides taking turns.

use triune_benches::Failure;

/// Something that answers all queries with one width, one after another.
pub(crate) trait Side {
    fn name(&self) -> String;
    /// Whom it is compared with as a peer; empty for our own.
    fn peer(&self) -> Option<String>;
    fn widths(&self) -> Vec<usize>;
    /// Recall@10 and mean microseconds of a query.
    fn pass(&mut self, ef: usize) -> Result<(f64, f64), Failure>;
    /// What is said of how it came about.
    fn remark(&self) -> String;
}

/// What a side reached at each width: the medians.
pub(crate) struct Curve {
    name: String,
    peer: Option<String>,
    remark: String,
    /// Width, recall, microseconds.
    points: Vec<(usize, f64, f64)>,
}

const TARGETS: [f64; 2] = [0.95, 0.99];

/// Lets all sides take turns, and each start a round in its turn, since the first reads low.
pub(crate) fn measure(sides: &mut [Box<dyn Side + '_>], rounds: usize) -> Result<Vec<Curve>, Failure> {
    let mut passes: Vec<Vec<Vec<(f64, f64)>>> = sides.iter().map(|s| vec![Vec::new(); s.widths().len()]).collect();
    for round in 0..rounds {
        for turn in 0..sides.len() {
            let at = (turn + round) % sides.len();
            for (i, ef) in sides[at].widths().into_iter().enumerate() {
                let pass = sides[at].pass(ef)?;
                passes[at][i].push(pass);
                // Beyond this nothing is asked of a side.
                if pass.0 > 0.995 {
                    break;
                }
            }
        }
    }
    Ok(sides.iter().zip(passes).map(|(side, passes)| Curve::of(side.as_ref(), passes)).collect())
}

impl Curve {
    fn of(side: &dyn Side, passes: Vec<Vec<(f64, f64)>>) -> Curve {
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let point = |(ef, passes): (usize, Vec<(f64, f64)>)| {
            (!passes.is_empty()).then(|| (ef, middle(passes.iter().map(|p| p.0).collect()), middle(passes.iter().map(|p| p.1).collect())))
        };
        let points = side.widths().into_iter().zip(passes).filter_map(point).collect();
        Curve { name: side.name(), peer: side.peer(), remark: side.remark(), points }
    }

    /// Queries a second at a recall, interpolated in the logarithm between the widths on both sides; `None` when it was not reached.
    fn at(&self, recall: f64) -> Option<f64> {
        let after = self.points.iter().position(|p| p.1 >= recall)?;
        let (_, high, slow) = self.points[after];
        if after == 0 {
            return Some(1e6 / slow);
        }
        let (_, low, fast) = self.points[after - 1];
        let part = if high > low { (recall - low) / (high - low) } else { 1.0 };
        Some(1e6 / (fast.ln() + part * (slow.ln() - fast.ln())).exp())
    }

    pub(crate) fn print(curves: &[Curve]) {
        let shown = |qps: Option<f64>| qps.map_or("-".into(), |q| format!("{q:.0}"));
        for curve in curves {
            println!(
                "{:<28} QPS at .95 {:>7}, at .99 {:>7}   {}",
                curve.name,
                shown(curve.at(TARGETS[0])),
                shown(curve.at(TARGETS[1])),
                curve.remark
            );
            let each: Vec<String> = curve.points.iter().map(|(ef, recall, us)| format!("{ef}: {recall:.4} {us:.0} us")).collect();
            println!("    {}", each.join(", "));
        }
        let best = |of: &dyn Fn(&Curve) -> bool, target: f64| {
            curves.iter().filter(|c| of(c)).filter_map(|c| c.at(target)).fold(f64::NAN, f64::max)
        };
        let mut peers: Vec<&String> = curves.iter().filter_map(|c| c.peer.as_ref()).collect();
        peers.sort();
        peers.dedup();
        for peer in peers {
            for target in TARGETS {
                let theirs = best(&|c| c.peer.as_ref() == Some(peer), target);
                for kind in ["compacted", "floats"].into_iter().filter(|kind| curves.iter().any(|c| c.name.starts_with(kind))) {
                    let ours = best(&|c| c.name.starts_with(kind), target);
                    println!("best of each, {kind}, recall {target}: {:.2}x {peer} ({ours:.0} to {theirs:.0})", ours / theirs);
                }
            }
        }
        for curve in curves.iter().filter(|c| c.peer.is_some()) {
            let m = curve.name.rsplit(' ').next().unwrap_or_default();
            for target in TARGETS {
                let ours = best(&|c| c.name == format!("compacted {m}"), target);
                println!("like for like {m}, recall {target}: {:.2}x {}", ours / curve.at(target).unwrap_or(f64::NAN), curve.name);
            }
        }
        for curve in curves.iter().filter(|c| c.peer.is_none() && !c.name.starts_with("bare") && !c.name.starts_with("floats")) {
            let m = curve.name.rsplit(' ').next().unwrap_or_default();
            for target in TARGETS {
                let bare = best(&|c| c.name == format!("bare {m}"), target);
                if let Some(ours) = curve.at(target).filter(|_| bare > 0.0) {
                    println!("{}, recall {target}: {:.2}x of the bare graph", curve.name, ours / bare);
                }
            }
        }
    }
}
