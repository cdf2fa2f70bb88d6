"""Chinese: patterns for time, number, person and kind of question, dates, and relative dates.

There are no spaces between words, so no pattern asks for word boundaries. Characters are simplified, with the
traditional ones where they differ in the most important words.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from memory.retrieval.languages.base import Lexicon, alternatives

_MONTHS = {
    "十二月": 12, "十一月": 11, "十月": 10, "一月": 1, "二月": 2, "三月": 3, "四月": 4, "五月": 5, "六月": 6,
    "七月": 7, "八月": 8, "九月": 9,
}  # fmt: skip
_WEEKDAYS = {
    f"{week}{day}": english
    for week in ("周", "星期", "礼拜", "週")
    for day, english in {
        "一": "monday", "二": "tuesday", "三": "wednesday", "四": "thursday", "五": "friday", "六": "saturday",
        "日": "sunday", "天": "sunday",
    }.items()
}  # fmt: skip
_DAYS = {
    "今天": "today", "今早": "this morning", "今晚": "tonight", "昨天": "yesterday", "昨晚": "last night",
    "前天": "the day before yesterday",
}  # fmt: skip
_COUNTS = {
    "一": "one", "两": "two", "兩": "two", "二": "two", "三": "three", "四": "four", "五": "five", "六": "six",
    "七": "seven", "八": "eight", "九": "nine", "十": "ten", "十一": "eleven", "十二": "twelve", "几": "a few",
}  # fmt: skip
_UNITS = {
    "天": "day", "日": "day", "周": "week", "週": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year",
    "周末": "weekend",
}  # fmt: skip
_PAST = {"去年": "year", "上周末": "weekend"}
_THIS = {"今年": "year", "本月": "month", "本周": "week"}


_COUNT = rf"\d{{1,3}}|{alternatives(_COUNTS)}"

CHINESE = Lexicon(
    first_person=re.compile("我|咱|俺"),
    second_person=re.compile("你|您|妳"),
    time=re.compile(
        rf"今天|昨天|前天|明天|昨晚|今早|今晚|早上|上午|中午|下午|晚上|夜里|最近|以前|刚才|刚刚|[上下这本]周|[上下这本]个?月|去年|今年"
        rf"|明年|前年|周末|星期|春天|夏天|秋天|冬天|生日|纪念日|小时|分钟|\d+[年月日号点]|{alternatives(_MONTHS)}|{alternatives(_WEEKDAYS)}"
    ),
    number=re.compile("\\d|[一二三四五六七八九十百千万两几][个只本次岁公元块点年天条张把匹棵口件辆双位杯]|半|许多"),
    asks_time=re.compile("什么时候|何时|几点|哪天|哪一天|哪年|哪一年|几月|几号|多久|多长时间|星期几|周几|什麼時候"),
    asks_place=re.compile("哪里|哪儿|在哪|去哪|何处|什么地方|哪个城市|哪座城市|哪个国家|哪條街|哪条街|哪裡"),
    asks_number=re.compile("多少|几[个只本次岁公块点年天条张把匹棵口件辆双位]|多大|多高|多远|多重|多久一次"),
    asks_several=re.compile("哪些|都有|所有|分别|各自|几个|几种|哪几"),
    asks_state=re.compile(
        "^(?!.*(?:过|以前|曾|当时|那时|昨|去年|上次|了[吗\uff1f?]*$)).*(?:是|在|叫|住|有|喜欢|做|开|学)", re.DOTALL
    ),
    change=re.compile("现在|如今|不再|改成|换成|换了|搬到|搬了|搬家|改为|从今|其实|更正|已经不|新的"),
    frame_words=frozenset(
        {
            "说",
            "过",
            "聊",
            "谈",
            "做",
            "事",
            "天",
            "发",
            "生",
            "发生",
            "说过",
            "聊过",
            "做过",
            "事情",
            "提",
            "提到",
            "到",
        }
        | {*_DAYS, *_UNITS, "昨", "今", "前", "上", "个月", "上个", "上周"}
    ),
    continuation=re.compile("^\\W*(?:那么?|还有|而且|但是?|然后|那.{0,6}呢)"),
    back_reference=re.compile("他|她|它|那里|那儿|那时|那个|这个|其中"),
    months=MappingProxyType(_MONTHS),
    possessive="",
    date_patterns=(
        re.compile(
            rf"(?:(?P<year>(?:19|20)\d\d)年)?(?:(?P<month>\d{{1,2}})月|(?P<name>{alternatives(_MONTHS)}))(?P<day>\d{{1,2}})[日号]"
        ),
        re.compile(
            rf"(?:(?P<year>(?:19|20)\d\d)年)?(?:(?<!\d)(?P<month>\d{{1,2}})月|(?P<name>{alternatives(_MONTHS)}))(?!前)"
        ),
        re.compile(r"(?P<year>(?:19|20)\d\d)年"),
    ),
    relative_dates=re.compile(
        rf"(?P<day>{alternatives(_DAYS)})"
        rf"|(?P<count>{_COUNT})个?(?P<unit>天|日|周|週|星期|礼拜|月|年)(?:以?前|之前)"
        rf"|(?:过去|最近)(?P<length>{_COUNT})个?(?P<of>天|日|周|週|星期|礼拜|月|年)"
        rf"|上个?(?P<weekday>{alternatives(_WEEKDAYS)})"
        rf"|(?P<past>{alternatives(_PAST)})|上个?(?P<last>周末|周|週|星期|礼拜|月)|去年(?P<month>{alternatives(_MONTHS)})"
        rf"|(?P<this>{alternatives(_THIS)})|这个?(?P<present>周末|周|週|星期|礼拜|月)"
    ),
    english_words=MappingProxyType({**_DAYS, **_COUNTS, **_UNITS, **_WEEKDAYS, **_PAST, **_THIS}),
)
