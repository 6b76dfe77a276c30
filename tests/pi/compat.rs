use pi_agents::pi::compat::{
    MINIMUM, NODE_MINIMUM, Version, cleans_up_once, node_is_supported, pi_is_supported,
    reports_tool_abort,
};

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

// R-PI-06
#[test]
fn versions_are_read_and_ordered() {
    assert_eq!(v("1.6.0"), Version::new(1, 6, 0));
    assert_eq!(v(" v22.19.0\n"), NODE_MINIMUM);
    assert_eq!(v("2"), Version::new(2, 0, 0));
    assert_eq!(v("1.7.0-beta.2+build.5").to_string(), "1.7.0-beta.2");
    for bad in [
        "",
        "v",
        "one",
        "1.x",
        "1.2.3.4",
        "1..2",
        "-1",
        "99999999999999999999.0",
    ] {
        assert!(bad.parse::<Version>().is_err(), "{bad:?}");
    }
    let rising = [
        "0.81.1",
        "1.4.0-alpha",
        "1.4.0-alpha.1",
        "1.4.0-alpha.2",
        "1.4.0-alpha.10",
        "1.4.0-beta",
        "1.4.0",
        "1.4.1",
        "1.10.0",
        "2.0.0",
    ];
    for pair in rising.windows(2) {
        assert!(v(pair[0]) < v(pair[1]), "{pair:?}");
    }
}

// R-PI-06
#[test]
fn the_oldest_supported_versions_are_the_stated_ones() {
    assert_eq!(MINIMUM.to_string(), "1.4.0");
    assert!(pi_is_supported(&v("1.4.0")));
    assert!(pi_is_supported(&v("1.4.0-rc.1")));
    assert!(pi_is_supported(&v("2.0.0-dev")));
    assert!(!pi_is_supported(&v("1.3.9")));
    assert!(!pi_is_supported(&v("0.99.1")));
    assert!(node_is_supported(&v("v22.23.3")));
    assert!(!node_is_supported(&v("v22.18.9")));
    assert!(!node_is_supported(&v("v20.20.0")));
}

#[test]
fn capabilities_begin_where_they_were_observed() {
    assert!(!cleans_up_once(&v("1.4.0")) && cleans_up_once(&v("1.5.1")));
    assert!(!reports_tool_abort(&v("1.5.1")) && reports_tool_abort(&v("1.6.0")));
}
