"""The schema of JUnit files as Jenkins and pytest's xunit2 have it, as far as our documents use it."""

from __future__ import annotations

from lxml import etree

_SCHEMA = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="property"><xs:complexType>
    <xs:attribute name="name" type="xs:string" use="required"/>
    <xs:attribute name="value" type="xs:string" use="required"/>
  </xs:complexType></xs:element>
  <xs:element name="properties"><xs:complexType><xs:sequence>
    <xs:element ref="property" maxOccurs="unbounded"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:complexType name="outcome"><xs:simpleContent><xs:extension base="xs:string">
    <xs:attribute name="type" type="xs:string"/>
    <xs:attribute name="message" type="xs:string"/>
  </xs:extension></xs:simpleContent></xs:complexType>
  <xs:element name="testcase"><xs:complexType>
    <xs:sequence>
      <xs:element ref="properties" minOccurs="0"/>
      <xs:choice minOccurs="0">
        <xs:element name="skipped" type="outcome"/>
        <xs:element name="error" type="outcome"/>
        <xs:element name="failure" type="outcome"/>
      </xs:choice>
      <xs:element name="system-out" type="xs:string" minOccurs="0"/>
      <xs:element name="system-err" type="xs:string" minOccurs="0"/>
    </xs:sequence>
    <xs:attribute name="name" type="xs:string" use="required"/>
    <xs:attribute name="classname" type="xs:string" use="required"/>
    <xs:attribute name="time" type="xs:decimal" use="required"/>
  </xs:complexType></xs:element>
  <xs:attributeGroup name="counts">
    <xs:attribute name="tests" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="failures" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="errors" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="skipped" type="xs:nonNegativeInteger" use="required"/>
    <xs:attribute name="time" type="xs:decimal" use="required"/>
  </xs:attributeGroup>
  <xs:element name="testsuite"><xs:complexType>
    <xs:sequence>
      <xs:element ref="properties" minOccurs="0"/>
      <xs:element ref="testcase" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attribute name="name" type="xs:string" use="required"/>
    <xs:attributeGroup ref="counts"/>
  </xs:complexType></xs:element>
  <xs:element name="testsuites"><xs:complexType>
    <xs:sequence><xs:element ref="testsuite" minOccurs="0" maxOccurs="unbounded"/></xs:sequence>
    <xs:attributeGroup ref="counts"/>
  </xs:complexType></xs:element>
</xs:schema>
"""


def assert_valid(text: str) -> None:
    """The document follows the schema."""
    etree.XMLSchema(etree.XML(_SCHEMA)).assertValid(etree.XML(text.encode()))
