"""Rules over one schema, and the objects they are run on; answers are recorded from upstream."""

# ruff: noqa: E501  # a case is read best on one line

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {**TEXT, "maxLength": 20},
        "t": TEXT,
        "e": {**TEXT, "enum": ["one", "three"]},
        "n": NUMBER,
        "m": NUMBER,
        "f": {"type": "number"},
        "b": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": True},
        "when": {**TEXT, "format": "date-time"},
        "day": {**TEXT, "format": "date"},
        "long": {**TEXT, "format": "duration"},
        "raw": {**TEXT, "format": "byte"},
        "l": {"type": "array", "maxItems": 10, "items": NUMBER},
        "words": {"type": "array", "maxItems": 5, "items": {**TEXT, "maxLength": 10}},
        "free": {"type": "array", "items": TEXT},
        "set": {
            "type": "array",
            "maxItems": 4,
            "x-kubernetes-list-type": "set",
            "items": {**TEXT, "maxLength": 5},
        },
        "rows": {
            "type": "array",
            "maxItems": 8,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {**TEXT, "maxLength": 5}, "v": NUMBER},
            },
        },
        "d": {
            "type": "object",
            "maxProperties": 6,
            "additionalProperties": {**TEXT, "maxLength": 8},
        },
        "in": {
            "type": "object",
            "properties": {"namespace": TEXT, "a-b": NUMBER, "c.d": NUMBER, "x__y": NUMBER},
        },
        "nul": {**TEXT, "nullable": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SELF = {
    "s": "héllo",
    "t": "some text",
    "e": "one",
    "n": 7,
    "m": -3,
    "f": 2,
    "b": True,
    "ios": "50%",
    "when": "2024-02-29T12:30:45.5Z",
    "day": "2024-02-29",
    "long": "90m",
    "raw": "aGk=",
    "l": [3, 1, 2],
    "words": ["a", "bb", "ccc"],
    "free": ["x", "y"],
    "set": ["p", "q"],
    "rows": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "d": {"k1": "v1", "k2": "v2"},
    "in": {"namespace": "ns", "a-b": 1, "c.d": 2, "x__y": 3},
    "nul": None,
    "any": {"q": 1},
}
# Evaluated on SELF; compared: the result or the failure, the cost, and the estimate.
RULES = """
true
self.n == 7
self.n + self.m == 4
self.n - 1 < self.m * 2
self.n / 2 == 3 && self.m % 2 == -1
self.n / 0 == 1
9223372036854775807 + self.n > 0
-self.n == -7
self.f == 2.0
self.f > self.n
self.f + 1.5 == 3.5
self.f / 0.0 > 1.0
double(self.n) == 7.0
int(self.f) == 2
int('12') == 12
int('x') == 12
uint(self.n) == 7u
string(self.f) == '2'
string(self.n) + self.s == '7héllo'
self.b
!self.b
self.b ? self.n > 0 : self.m > 0
self.n > 0 || self.n / 0 > 1
self.n / 0 > 1 || self.n > 0
self.n / 0 > 1 && self.n < 0
self.n / 0 > 1 && self.n > 0
has(self.s)
has(self.in.namespace)
has(self.any)
!has(self.nul) || self.nul == 'x'
self.in.__namespace__ == 'ns'
self.in.a__dash__b == 1
self.in.c__dot__d == 2
self.in.x__underscores__y == 3
size(self.s) == 5
self.s.size() > 5
self.l.size() == 3 && size(self.d) == 2
self.s.contains('ll')
self.t.contains(self.s)
self.s.startsWith('hé') && self.s.endsWith('lo')
self.t.startsWith('so')
self.s.matches('^h.*o$')
self.t.matches('[a-z]+')
matches(self.t, 'xyz')
self.s == 'héllo'
self.t == self.s
self.t < self.s
self.s != ''
self.e == 'one'
self.e in ['one', 'two']
3 in self.l
'k1' in self.d
'zz' in self.d
self.l[0] == 3
self.l[9] == 3
self.l[-1] == 3
self.d['k1'] == 'v1'
self.d['no'] == 'v1'
self.d.k1 == 'v1'
self.l.all(x, x > 0)
self.l.all(x, x > 1)
self.l.exists(x, x == 2)
self.l.exists(x, x / 0 == 2)
self.l.exists_one(x, x == 2)
self.l.existsOne(x, x >= 2)
self.l.map(x, x * 2) == [6, 2, 4]
self.l.map(x, x > 1, x * 2) == [6, 4]
self.l.filter(x, x > 1).size() == 2
self.words.all(w, w.size() < 4)
self.words.map(w, w + '!').join(',') == 'a!,bb!,ccc!'
self.words.exists(w, w.matches('^c+$'))
self.free.all(x, x.size() > 0)
self.free.all(x, self.free.all(y, x + y != 'zz'))
self.d.all(k, self.d[k].startsWith('v'))
self.d.exists(k, k == 'k2')
self.d.all(k, v, k.size() == v.size())
self.l.all(i, v, i < v)
self.l.exists(i, v, i == 0 && v == 3)
self.l.transformList(i, v, i * v) == [0, 1, 4]
self.l.transformList(i, v, i > 0, v) == [1, 2]
self.d.transformMap(k, v, v + k)['k1'] == 'v1k1'
self.d.transformMap(k, v, k == 'k1', v).size() == 1
self.d.transformMapEntry(k, v, {v: k})['v2'] == 'k2'
self.l.isSorted()
self.l.sum() == 6
self.l.max() == 3 && self.l.min() == 1
self.l.indexOf(1) == 1
self.l.lastIndexOf(9) == -1
self.words.indexOf('bb') == 1
self.l.sort() == [1, 2, 3]
self.words.sortBy(w, -size(w)) == ['ccc', 'bb', 'a']
self.l.reverse() == [2, 1, 3]
self.l.slice(0, 2) == [3, 1]
self.l.slice(0, 9) == [3, 1]
self.l.distinct().size() == 3
[[1], [2, 3]].flatten() == [1, 2, 3]
lists.range(3) == [0, 1, 2]
self.l + [4] == [3, 1, 2, 4]
self.set == ['q', 'p']
self.set + ['q', 'r'] == ['p', 'q', 'r']
self.rows.all(r, r.v > 0)
self.rows.exists(r, r.k == 'b' && r.v == 2)
self.rows == [{'k': 'b'}]
sets.contains(self.l, [1, 2])
sets.equivalent(self.l, [1, 2, 3])
sets.intersects(self.l, [9])
self.s.charAt(1) == 'é'
self.s.charAt(9) == ''
self.s.indexOf('l') == 2 && self.s.lastIndexOf('l') == 3
self.s.indexOf('l', 3) == 3
self.t.lowerAscii() == 'some text'
self.t.upperAscii() == 'SOME TEXT'
self.t.replace('e', 'E') == 'somE tExt'
self.t.replace('e', '', 1) == 'som text'
self.t.split(' ') == ['some', 'text']
self.t.split('') .size() == 9
self.t.split('e', 2) == ['som', ' text']
self.t.substring(5) == 'text'
self.t.substring(0, 4) == 'some'
self.t.substring(5, 2) == ''
' x '.trim() == 'x'
self.words.join() == 'abbccc'
'%d of %s'.format([self.n, 'x']) == '7 of x'
'%s'.format([self.l]) == '[3, 1, 2]'
'%s %s %s'.format(['a', 'b', 'c']) == 'a b c'
'%.2f'.format([self.f]) == '2.00'
'%e'.format([self.f]) == '2.000000e+00'
'%x %X %o %b'.format([255, 255, 8, 5]) == 'ff FF 10 101'
'%s'.format([self.d]) == '{k1: v1, k2: v2}'
'%s'.format([1.5]) == '1.5'
'%d'.format(['x']) == ''
'%s %s'.format(['a']) == ''
'%q'.format(['a']) == ''
strings.quote(self.t) == '"some text"'
self.t.find('[a-z]+') == 'some'
self.t.findAll('[a-z]+') == ['some', 'text']
self.t.findAll('[a-z]+', 1) == ['some']
self.when.getFullYear() == 2024 && self.when.getMonth() == 1 && self.when.getDate() == 29
self.when.getDayOfWeek() == 4 && self.when.getDayOfYear() == 59 && self.when.getDayOfMonth() == 28
self.when.getHours() == 12 && self.when.getMinutes() == 30 && self.when.getSeconds() == 45
self.when.getMilliseconds() == 500
self.when.getHours('America/New_York') == 7
self.when.getHours('+02:00') == 14
self.when > timestamp('2024-01-01T00:00:00Z')
self.when - self.day == duration('12h30m45.5s')
self.day + self.long < self.when
string(self.when) == '2024-02-29T12:30:45.5Z'
int(self.when) == 1709209845
self.long == duration('1h30m')
self.long.getMinutes() == 90 && self.long.getHours() == 1
string(self.long) == '5400s'
self.long + duration('1s') > self.long
duration('1d') > self.long
timestamp('yesterday') > self.when
self.raw == b'hi'
string(self.raw) == 'hi'
bytes('hi') == self.raw
type(self.ios) == string
type(self.ios) == string ? self.ios == '50%' : self.ios > 5
self.ios > 5
self.ios == '50%'
type(self.n) == int && type(self.l) == list && type(self.d) == map
type(1.0) == double && type(true) == bool && type(null) == null_type
quantity('1Gi').isGreaterThan(quantity('1G'))
quantity('1k').compareTo(quantity('1000')) == 0
quantity('1.5').add(quantity('500m')) == quantity('2')
quantity('5').sub(2).asInteger() == 3
quantity('1m').isInteger()
quantity('1m').asInteger() == 0
quantity('250m').asApproximateFloat() == 0.25
quantity(self.t).isInteger()
isQuantity(self.t) || isQuantity('1Ki')
semver('1.2.3').isLessThan(semver('1.10.0'))
semver('v1.2', true).major() == 1
semver('1.2.3-rc.1').compareTo(semver('1.2.3')) == -1
semver('x').minor() == 1
isSemver('1.2') || isSemver('01.2.3')
ip('192.168.0.1').family() == 4
ip('::1').isLoopback()
ip('fe80::1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast()
isIP('1.2.3') || isIP('::ffff:1.2.3.4')
ip('1.2.3') == ip('1.2.3.4')
ip.isCanonical('2001:DB8::1')
string(ip('10.0.0.1')) == '10.0.0.1'
cidr('10.0.0.0/8').containsIP('10.1.2.3')
cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')
cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.0/8').ip() == ip('10.0.0.0')
isCIDR('10.0.0.0') || isCIDR('10.0.0.0/33')
cidr('10.0.0.0').prefixLength() == 8
url('https://example.com:80/a%20b?q=1&q=2').getHost() == 'example.com:80'
url('https://example.com:80/').getHostname() == 'example.com' && url('https://example.com:80/').getPort() == '80'
url('https://example.com/a%20b').getEscapedPath() == '/a%20b'
url('https://example.com/?q=1&q=2').getQuery()['q'] == ['1', '2']
url('https://example.com/').getScheme() == 'https'
isURL('../x') || isURL('')
isURL('/x/y')
url(self.t).getHost() == ''
format.dns1123Label().validate('a-b').hasValue()
format.dns1123Label().validate('A_b').value().size() == 1
format.named('uuid').value().validate('x').value()[0] == 'does not match the UUID format'
!format.named('nope').hasValue()
!format.qualifiedName().validate('example.com/x').hasValue()
!format.labelValue().validate(self.s).hasValue()
self.?s.orValue('none') == 'héllo'
self.?nul.orValue('none') == 'none'
self.d[?'k9'].orValue('none') == 'none'
self.d[?'k1'].hasValue()
self.l[?9].hasValue()
optional.of(self.n).optMap(x, x + 1).value() == 8
optional.none().orValue(1) == 1
optional.ofNonZeroValue(0).hasValue()
optional.of(1).or(optional.of(2)).value() == 1
optional.none().value() == 1
{'a': 1, 'b': 2}.size() == 2
{?'a': self.?s}.size() == 1
[?optional.none(), optional.of(1).value()].size() == 1
{'a': 1}['b'] == 1
{1: 'x'}[1] == 'x'
[1, 2] == [1, 2] && {'a': [1]} == {'a': [1]}
dyn(1) == 1.0
dyn(1) < 2u
dyn('a') < 1
dyn(self.s) + 1 == 2
'''multi'line''' == self.s
"\\u0041\\x42\\n" == 'AB\\n'
r'\\d' == '\\\\d'
b'\\xff' == b'a'
0x10 == 16 && 1e3 == 1000.0
self.any.q == 1
self.unknown == 1
self.s.unknown == 1
self.s + 1 == 2
self.n == 'x'
self.s.foo()
foo(self.s)
self.l.map(1, 2)
self.l.all(x, y)
has(self)
self.n
self.s.matches('(')
[1, 'a'].size() == 2
{'a': 1, 'b': 'x'}.size() == 2
self.n >
self.n > 1)
(self.n > 1
self.n >> 1
self.n = 1
'unclosed
self.s # 1
self..s
self.l.exists(x)
in
for
self.for == 1
1 + 2 3
{'a' 1}
[1 2]
if (true) 1
self.n == 1 ? 2
cel.bind(x, 1, x == 1)
self.metadata.name == 'x'
self.l.all(x, self.l.all(y, self.l.all(z, x + y + z > 0)))
self.free.map(x, self.free.map(y, x + y)).size() > 0
self.free.filter(x, x in self.free).size() > 0
self.t.replace('a', 'bb').size() > 0
self.free.join(',').contains(self.t)
self.free.isSorted()
""".strip("\n").split("\n")
