//! What cannot be a lock on several nodes is refused when it is made.

use super::*;
use crate::testing::World;

fn made(nodes: &[u16]) -> Result<Redlock<crate::testing::TestEnv>, OptionsError> {
    let options = Options::builder(Duration::from_secs(1)).build().unwrap();
    Redlock::new(World::new().env(), nodes.iter().map(|node| Node(*node)), *b"k", options)
}

#[test]
fn it_takes_three_different_nodes_or_a_larger_odd_number() {
    for nodes in [&[0, 1, 2][..], &[0, 1, 2, 3, 4]] {
        assert!(made(nodes).is_ok(), "{nodes:?}");
    }
    for nodes in [&[][..], &[0], &[0, 1], &[0, 1, 2, 3]] {
        let error = made(nodes).unwrap_err();
        assert_eq!(error, OptionsError::NodesUneven { nodes: nodes.len() });
    }
    assert_eq!(made(&[0, 1, 0]).unwrap_err(), OptionsError::NodeTwice { node: 0 });
}

#[test]
fn options_of_a_lock_on_one_node_are_refused() {
    let builder = || Options::builder(Duration::from_secs(1));
    let nodes = || (0..3).map(Node);
    for options in
        [builder().fenced(), builder().notify(), builder().wait_for(1, Duration::from_millis(5))]
    {
        let made = Redlock::new(World::new().env(), nodes(), *b"k", options.build().unwrap());
        assert_eq!(made.unwrap_err(), OptionsError::OneNodeOnly);
    }
    let made = Redlock::new(World::new().env(), nodes(), *b"", builder().build().unwrap());
    assert_eq!(made.unwrap_err(), OptionsError::KeyEmpty);
}
