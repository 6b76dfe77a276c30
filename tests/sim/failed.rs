//! Worlds that once failed, as lists of steps.

/// Small failing worlds as the report prints them, with the promise they broke.
pub const TRACES: &[(&str, &str)] = &[
    (
        "R-LIFE-02: a stop is overwritten by a start that takes too long",
        "world 2
        spawn 3 9 0  # host 0 wants agent 3 (sort 9)
        stop 17 3 0  # somebody stops agent 3 (call 17)
        timer 0 0 0  # the next timer is over",
    ),
    (
        "R-LIFE-11: a message is launched for again and again",
        "world 1
        spawn 4 13 0  # host 0 wants agent 4 (sort 13)
        self-start 4 0 0  # process 4 starts a run by itself
        go 4 2 0  # process 4 goes on with its run (sort 2)
        go 4 0 0  # process 4 goes on with its run (sort 0)",
    ),
    (
        "R-DELIV-11: a task that was worked on is called not started",
        "world 0
        spawn 3 264 0  # host 0 wants agent 3 (sort 264)
        launched 3 0 0
        read 3 0 0
        hear 3 0 0
        read 3 0 0
        answer 3 5 0  # process 3 answers the prompt it holds (sort 5)
        hear 3 0 0
        hear 3 0 0
        die 3 0 0  # process 3 dies (sort 0)
        exit 3 0 0  # the system reports that process 3 is dead; 0 things it said are lost",
    ),
    (
        "R-DELIV-05: what is owed is forgotten when the core dies",
        "world 0
        join 2 1 0  # host 1 joins (call 2)
        spawn 13 14 1  # host 1 wants agent 13 (sort 14)
        die 13 143 0  # process 13 dies (sort 143)
        exit 13 0 0
        swept 13 0 0
        send 20 13 0  # somebody sends message 20 to agent 13 (sort 0)
        self-start 20 0 0
        go 20 0 0
        go 20 0 0
        go 20 0 0
        launched 20 0 0
        hear 20 0 0
        synced 0 1 0
        hear 20 0 0
        synced 0 1 0
        core-dies 0 0 0  # the core is killed and a new one takes in the records",
    ),
    (
        "R-DELIV-11: a message is sent again that a process without output may have consumed",
        "world 2
        spawn 6 1 0  # host 0 wants agent 6 (sort 1)
        core-dies 1 0 0  # the core is killed and a new one takes in the records
        send 10 6 0  # somebody sends message 10 to agent 6 (sort 0)
        launched 10 0 0  # the system reports that process 10 was started
        read 10 0 0  # process 10 reads its next command (sort 0)
        send 12 6 0  # somebody sends message 12 to agent 6 (sort 0)
        hear 10 0 0  # the core hears the next thing process 10 said
        send 13 6 0  # somebody sends message 13 to agent 6 (sort 0)
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 0 0  # process 10 answers the prompt it holds (sort 0)
        hear 10 0 0  # the core hears the next thing process 10 said
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 2 0  # process 10 answers the prompt it holds (sort 2)
        hear 10 0 0  # the core hears the next thing process 10 said
        hear 10 0 0  # the core hears the next thing process 10 said
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 0 0  # process 10 answers the prompt it holds (sort 0)
        go 10 7 0  # process 10 goes on with its run (sort 7)
        go 10 1 0  # process 10 goes on with its run (sort 1)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 4 0  # process 10 goes on with its run (sort 4)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        self-start 10 0 0  # process 10 starts a run by itself
        mute 10 0 0  # process 10 closes its output and lives on
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 0 0  # process 10 goes on with its run (sort 0)",
    ),
    (
        "R-DELIV-11: a message is lost that was accepted once and refused by the next process",
        "world 0
        spawn 2 1 0  # host 0 wants agent 2 (sort 1)
        die 2 143 0  # process 2 dies (sort 143)
        exit 2 0 0  # the system reports that process 2 is dead; 0 things it said are lost
        swept 2 2 1  # what process 2 left is gone: 2 killed, 1 not
        send 14 2 20  # somebody sends message 14 to agent 2 (sort 20)
        launched 14 0 0  # the system reports that process 14 was started
        read 14 0 0  # process 14 reads its next command (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 3 0  # process 14 reads its next command (sort 3)
        answer 14 4 0  # process 14 answers the prompt it holds (sort 4)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        send 18 2 0  # somebody sends message 18 to agent 2 (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 0 0  # process 14 reads its next command (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        answer 14 0 0  # process 14 answers the prompt it holds (sort 0)
        go 14 2 0  # process 14 goes on with its run (sort 2)
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        go 14 0 0  # process 14 goes on with its run (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        die 14 9 0  # process 14 dies (sort 9)
        exit 14 0 0  # the system reports that process 14 is dead; 0 things it said are lost
        swept 14 0 0  # what process 14 left is gone: 0 killed, 0 not
        launched 18 0 0  # the system reports that process 18 was started
        read 18 4 0  # process 18 reads its next command (sort 4)
        hear 18 0 0  # the core hears the next thing process 18 said
        read 18 0 0  # process 18 reads its next command (sort 0)
        hear 18 0 0  # the core hears the next thing process 18 said
        answer 18 3 0  # process 18 answers the prompt it holds (sort 3)
        hear 18 0 0  # the core hears the next thing process 18 said
        send 37 2 10  # somebody sends message 37 to agent 2 (sort 10)",
    ),
    (
        "R-DELIV-11: a task that the model has is called not started",
        "world 0
        spawn 10 264 0  # host 0 wants agent 10 (sort 264)
        launched 10 0 0  # the system reports that process 10 was started
        read 10 0 0  # process 10 reads its next command (sort 0)
        hear 10 0 0  # the core hears the next thing process 10 said
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 6 0  # process 10 answers the prompt it holds (sort 6)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        repeat 10 0 0  # process 10 says its last answer again
        go 10 2 0  # process 10 goes on with its run (sort 2)
        mute 10 0 0  # process 10 closes its output and lives on",
    ),
    (
        "R-LIFE-04: a run that vanished goes on for ever when the child compacts as it is asked",
        "world 2
        spawn 4 12 0  # host 0 wants agent 4 (sort 12)
        core-dies 2 0 0  # the core is killed and a new one takes in the records
        send 13 4 0  # somebody sends message 13 to agent 4 (sort 0)
        launched 13 0 0  # the system reports that process 13 was started
        timer 0 0 0  # the next timer is over
        send 14 4 0  # somebody sends message 14 to agent 4 (sort 0)
        timer 0 0 0  # the next timer is over
        timer 0 0 0  # the next timer is over
        exit 13 0 0  # the system reports that process 13 is dead; 0 things it said are lost
        swept 13 0 0  # what process 13 left is gone: 0 killed, 0 not
        launched 14 0 0  # the system reports that process 14 was started
        read 14 0 0  # process 14 reads its next command (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 4 0  # process 14 reads its next command (sort 4)
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 0 0  # process 14 reads its next command (sort 0)
        answer 14 0 0  # process 14 answers the prompt it holds (sort 0)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        go 14 7 0  # process 14 goes on with its run (sort 7)
        hear 14 0 0  # the core hears the next thing process 14 said
        compact 14 0 0  # process 14 begins to compact
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        timer 0 0 0  # the next timer is over",
    ),
    (
        "R-LIFE-04: a run that vanished goes on for ever when the question for it is not answered",
        "world 1
        spawn 12 256 0  # host 0 wants agent 12 (sort 256)
        launched 12 0 0  # the system reports that process 12 was started
        self-start 12 0 0  # process 12 starts a run by itself
        hear 12 0 0  # the core hears the next thing process 12 said
        read 12 5 0  # process 12 reads its next command (sort 5)
        hear 12 0 0  # the core hears the next thing process 12 said
        read 12 0 0  # process 12 reads its next command (sort 0)
        answer 12 0 0  # process 12 answers the prompt it holds (sort 0)
        go 12 7 0  # process 12 goes on with its run (sort 7)
        hear 12 0 0  # the core hears the next thing process 12 said
        hear 12 0 0  # the core hears the next thing process 12 said
        hear 12 0 0  # the core hears the next thing process 12 said
        timer 0 0 0  # the next timer is over
        read 12 3 0  # process 12 reads its next command (sort 3)",
    ),
    (
        "R-LIFE-15: what was dropped is forgotten when the answer comes after the abort was given up",
        "world 2
        spawn 12 1 0  # host 0 wants agent 12 (sort 1)
        core-dies 2 0 0  # the core is killed and a new one takes in the records
        send 19 12 2  # somebody sends message 19 to agent 12 (sort 2)
        launched 19 0 0  # the system reports that process 19 was started
        read 19 0 0  # process 19 reads its next command (sort 0)
        hear 19 0 0  # the core hears the next thing process 19 said
        self-start 19 0 0  # process 19 starts a run by itself
        hear 19 0 0  # the core hears the next thing process 19 said
        stray 19 0 0  # process 19 says that it is settled, out of nowhere
        hear 19 0 0  # the core hears the next thing process 19 said
        abort 24 12 1  # somebody aborts the run of agent 12 (call 24)
        read 19 0 0  # process 19 reads its next command (sort 0)
        send 26 12 2  # somebody sends message 26 to agent 12 (sort 2)
        answer 19 0 0  # process 19 answers the prompt it holds (sort 0)
        hear 19 0 0  # the core hears the next thing process 19 said
        timer 0 0 0  # the next timer is over
        hear 19 0 0  # the core hears the next thing process 19 said
        timer 0 0 0  # the next timer is over",
    ),
    (
        "R-LIFE-15: what was dropped is given back twice when an old answer comes again",
        "world 1
        spawn 2 2 0  # host 0 wants agent 2 (sort 2)
        launched 2 0 0  # the system reports that process 2 was started
        spawn 4 260 0  # host 0 wants agent 4 (sort 260)
        send 5 4 0  # somebody sends message 5 to agent 4 (sort 0)
        deaf 2 0 0  # process 2 closes its input and lives on
        launched 4 0 0  # the system reports that process 4 was started
        read 4 0 0  # process 4 reads its next command (sort 0)
        hear 4 0 0  # the core hears the next thing process 4 said
        read 4 0 0  # process 4 reads its next command (sort 0)
        hear 4 0 0  # the core hears the next thing process 4 said
        write-fails 2 0 0  # the core learns that process 2 takes no input
        read 4 0 0  # process 4 reads its next command (sort 0)
        answer 4 0 0  # process 4 answers the prompt it holds (sort 0)
        hear 4 0 0  # the core hears the next thing process 4 said
        read 4 0 0  # process 4 reads its next command (sort 0)
        timer 0 0 0  # the next timer is over
        go 4 0 0  # process 4 goes on with its run (sort 0)
        hear 4 0 0  # the core hears the next thing process 4 said
        answer 4 0 0  # process 4 answers the prompt it holds (sort 0)
        hear 4 0 0  # the core hears the next thing process 4 said
        hear 4 0 0  # the core hears the next thing process 4 said
        abort 7 4 0  # somebody aborts the run of agent 4 (call 7)
        read 4 0 0  # process 4 reads its next command (sort 0)
        timer 0 0 0  # the next timer is over
        exit 2 0 0  # the system reports that process 2 is dead; 0 things it said are lost
        hear 4 0 0  # the core hears the next thing process 4 said
        hear 4 0 0  # the core hears the next thing process 4 said
        timer 0 0 0  # the next timer is over
        repeat 4 0 0  # process 4 says its last answer again
        abort 8 4 0  # somebody aborts the run of agent 4 (call 8)",
    ),
    (
        "R-DELIV-11: a message to an agent whose waited-for start had failed is called undecided",
        "world 2
        spawn 21 267 0  # host 0 wants agent 21 (sort 267)
        stop 22 21 0  # somebody stops agent 21 (call 22, 0 = by its host)
        send 24 21 0  # somebody sends message 24 to agent 21 (sort 0)
        die 21 0 0  # process 21 dies (sort 0)
        exit 21 0 0  # the system reports that process 21 is dead; 0 things it said are lost
        swept 21 1 1  # what process 21 left is gone: 1 killed, 1 not
        launched 24 0 0  # the system reports that process 24 was started
        read 24 0 0  # process 24 reads its next command (sort 0)
        hear 24 0 0  # the core hears the next thing process 24 said
        read 24 0 0  # process 24 reads its next command (sort 0)
        answer 24 6 0  # process 24 answers the prompt it holds (sort 6)
        go 24 0 0  # process 24 goes on with its run (sort 0)
        hear 24 0 0  # the core hears the next thing process 24 said
        repeat 24 0 0  # process 24 says its last answer again
        hear 24 0 0  # the core hears the next thing process 24 said
        go 24 3 0  # process 24 goes on with its run (sort 3)
        hear 24 0 0  # the core hears the next thing process 24 said
        hear 24 0 0  # the core hears the next thing process 24 said
        timer 0 0 0  # the next timer is over",
    ),
];
