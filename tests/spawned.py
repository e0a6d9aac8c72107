"""What a process does that a task has started: importable without Django, as it must be."""


def double(answers, number):
    answers.put(2 * number)
